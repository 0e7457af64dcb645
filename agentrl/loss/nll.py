"""Negative log-likelihood of tokens, sampled or not."""

import chex

from agentrl import registry
from agentrl.loss import ppo
from agentrl.types import Array, Loss, LossInputs


def every_weight(x: LossInputs) -> Array:
  """Returns weights [N, T] of all tokens, sampled or not."""
  return x.credit.weight


@registry.register(
  'loss', needs=('output:logp',), takes='any', weight=every_weight
)
def nll(x: LossInputs) -> Loss:
  """−log π, nats, of every token with a weight, sampled or not."""
  chex.assert_equal_shape([x.outputs.logp, x.credit.weight])
  metrics = {'nll': ppo.metric(-x.outputs.logp, x.credit.weight)}
  return -x.outputs.logp, metrics
