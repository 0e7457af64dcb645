"""Per-token losses, and reducers that turn weights into coefficients."""

from agentrl.loss import (
  covariance,
  divergence,
  entropy,
  gates,
  imitate,
  kl,
  nll,
  ppo,
  ratio,
  reduce,
  sequence,
  value,
)

__all__ = [
  'covariance',
  'divergence',
  'entropy',
  'gates',
  'imitate',
  'kl',
  'nll',
  'ppo',
  'ratio',
  'reduce',
  'sequence',
  'value',
]
