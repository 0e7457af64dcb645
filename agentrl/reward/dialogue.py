"""Rewards of dialogues: for what was worth finding out from the user."""

from typing import Annotated

import jax.numpy as jnp

from agentrl import registry
from agentrl.domain import Count, Named, NotNegative, Real
from agentrl.types import Array, RewardInputs


@registry.register(
  'reward', needs=('term:{needed}', 'term:{needless}', 'term:{premature}')
)
def clarification(
  x: RewardInputs,
  *,
  needed: Named = 'needed',
  needless: Named = 'needless',
  premature: Named = 'premature',
  slots: Count = 3,
  bonus: Annotated[float, Real(0, 1, below=True)] = 0.5,
  needless_cost: NotNegative = 0.2,
  premature_cost: NotNegative = 0.2,
  turn_cost: NotNegative = 0.01,
) -> Array:
  """r_k = a (min(N_k, slots) − min(N_{k−1}, slots)) − b u_k − d p_k − ε

  SpeakRL (arXiv 2512.13159), beside `outcome`: a question that was needed
  pays a = bonus / slots, a needless one costs b, to act while something is
  missing costs d, and every turn ε. N_k counts needed questions up to turn k,
  so that no more than `slots` of them are paid: all together less than the 1
  of the task, and no way to live on questions.

  Args:
    needed, needless, premature: terms that count questions about what is
      missing, other or repeated questions, and acts before all is known
    slots: most things that a task leaves to be asked
    bonus: for all of them together
    needless_cost: b
    premature_cost: d
    turn_cost: ε
  """
  count, u, p = (
    jnp.where(x.turns.valid, x.turns.terms[name], 0)
    for name in (needed, needless, premature)
  )
  so_far = jnp.cumsum(count, axis=1)
  paid = jnp.minimum(so_far, slots) - jnp.minimum(so_far - count, slots)
  cost = needless_cost * u + premature_cost * p + turn_cost
  return jnp.where(x.turns.valid, bonus / slots * paid - cost, 0)
