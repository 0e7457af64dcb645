"""Sampling beside the policy's most likely answer."""

import jax
import jax.numpy as jnp

from agentrl import registry
from agentrl.advantage import returns
from agentrl.curate import select
from agentrl.ops import counting
from agentrl.types import Batch, CollectInputs


@registry.register('collect', gives=('term:greedy_return',))
def greedy_companion(x: CollectInputs) -> Batch:
  """batch = score(sample(attempts)), each beside its greedy companion.

  The companion is an attempt at the same task at temperature 0. Nothing of it
  is trained on: turns.terms['greedy_return'] holds its return, on every turn.
  An attempt whose companion does not count has nothing to be held against and
  does not count either.
  """
  batch = x.score(x.sample(x.attempts, x.key))
  cold = x.attempts.replace(temperature=jnp.zeros_like(x.attempts.temperature))
  other = x.score(x.sample(cold, jax.random.fold_in(x.key, 1)))
  back = returns.episode(other)[0][:, None]
  back = jnp.where(batch.turns.valid, back, 0)
  turns = batch.turns.replace(
    terms={**batch.turns.terms, 'greedy_return': back}
  )
  both = jax.tree.map(jnp.add, batch.sampled, other.sampled)
  batch = batch.replace(turns=turns, sampled=both)
  return select.keep(batch, counting.trajectories(other))
