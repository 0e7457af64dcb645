"""Sample once, score once."""

from agentrl import registry
from agentrl.types import Batch, CollectInputs


@registry.register('collect')
def once(x: CollectInputs) -> Batch:
  """batch = score(sample(attempts, key))."""
  return x.score(x.sample(x.attempts, x.key))
