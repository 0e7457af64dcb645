"""Per-token losses, and reducers that turn weights into coefficients."""

from agentrl.loss import (  # noqa: F401  register their pieces
  covariance,
  distillation,
  divergence,
  entropy,
  gates,
  imitate,
  kl,
  nll,
  ppo,
  preference,
  prefix,
  ratio,
  reduce,
  sequence,
  trust,
  value,
)
