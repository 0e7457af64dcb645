"""Sample once, score once."""

from agentrl import registry
from agentrl.types import Attempts, Batch


@registry.register('collect')
def once(sample, score, attempts: Attempts, memory, carry, key):
  """batch = score(sample(attempts, key)).

  Args:
    sample: (attempts, key) -> Batch without rewards
    score: Batch -> Batch with turns.reward
  Returns: Batch, carry
  """
  batch: Batch = score(sample(attempts, key))
  return batch, carry
