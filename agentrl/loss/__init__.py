"""Per-token losses, and reducers that turn weights into coefficients."""

from agentrl.loss import (
  divergence,
  entropy,
  gates,
  imitate,
  kl,
  nll,
  ppo,
  reduce,
  sequence,
  value,
)

__all__ = [
  'divergence',
  'entropy',
  'gates',
  'imitate',
  'kl',
  'nll',
  'ppo',
  'reduce',
  'sequence',
  'value',
]
