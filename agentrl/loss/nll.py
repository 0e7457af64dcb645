"""Supervised learning of tokens, whoever wrote them."""

import chex

from agentrl import registry
from agentrl.loss import ppo
from agentrl.types import Array, Batch, Credit, Metrics, Outputs, Signals


@registry.register('loss', needs=('output:logp',), takes='any')
def nll(
  outputs: Outputs,
  batch: Batch,
  credit: Credit,
  signals: Signals,
  key: Array,
) -> tuple[Array, Array, Metrics]:
  """−log π, nats, of every token with a weight, sampled or not."""
  chex.assert_equal_shape([outputs.logp, credit.weight])
  metrics = {'nll': ppo.metric(-outputs.logp, credit.weight)}
  return -outputs.logp, credit.weight, metrics
