"""The entropy bonus."""

import chex

from agentrl import registry
from agentrl.loss import ppo
from agentrl.types import Array, Batch, Credit, Metrics, Outputs, Signals


@registry.register('loss', needs=('output:entropy',), takes='any')
def entropy(
  outputs: Outputs,
  batch: Batch,
  credit: Credit,
  signals: Signals,
  key: Array,
) -> tuple[Array, Array, Metrics]:
  """−H, nats, of the distributions that sampled tokens were drawn from."""
  chex.assert_equal_shape([outputs.entropy, credit.weight])
  weight = ppo.weight_of(batch, credit)
  metrics = {'entropy': ppo.metric(outputs.entropy, weight)}
  return -outputs.entropy, weight, metrics
