"""Per-token losses, and reducers that turn weights into coefficients."""

from agentrl.loss import (
  covariance,
  entropy,
  kl,
  nll,
  ppo,
  ratio,
  reduce,
  value,
)

__all__ = [
  'covariance',
  'entropy',
  'kl',
  'nll',
  'ppo',
  'ratio',
  'reduce',
  'value',
]
