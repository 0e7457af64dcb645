"""Step-label links: credit from a judge's labels, shares and milestones.

The term a judge speaks through is named by `name`. In the jittable
environments it is `progress`, the solver's truth; elsewhere a judge's own. A
turn whose judge failed adds nothing and statistics leave it out.
"""

import chex
import jax
import jax.numpy as jnp

from agentrl import registry
from agentrl.advantage import returns
from agentrl.domain import Discount, Named, NotNegative, Number
from agentrl.ops import counting
from agentrl.types import Linked, LinkInputs


@registry.register('link', needs=('term:{name}',))
def add_label(
  x: LinkInputs,
  *,
  name: Named = 'progress',
  above: Number = 0.0,
  good: Number = 1.0,
  bad: Number = 0.0,
) -> Linked:
  """x_k += good where the judge's label of turn k exceeds a threshold, or bad.

  A judge that answers yes or no (AgentEvolver, arXiv 2511.10395).

  Args:
    name: term of the label
    above: a label above it is good
    good: what is added to good turns
    bad: what is added to others
  """
  label = x.batch.turns.terms[name]
  chex.assert_equal_shape([label, x.credit.turn])
  return returns.earn(x, jnp.where(label > above, good, bad))


@registry.register('link', gives=('along_turns',))
def share_outcome(
  x: LinkInputs, *, against: NotNegative = 0.2, solved: Number = 0.5
) -> Linked:
  """x_k <- s w_k / Σ_j w_j: the sign of the outcome, dealt out by labels.

  s is 1 where the outcome is above `solved`, else -1; w_k is 1 where the
  label x_k agrees with it (x_k > 0 means good), else `against`. The shares of
  a trajectory add up to s (AgentEvolver's `allocation`).

  Args:
    against: weight of turns whose label contradicts the outcome
    solved: an outcome above it is a success
  """
  chex.assert_rank([x.credit.turn, x.batch.outcome], [2, 1])
  won = (x.batch.outcome > solved)[:, None]
  weight = jnp.where((x.credit.turn > 0) == won, 1.0, against)
  weight = jnp.where(counting.counted(x.batch, 'turn'), weight, 0)
  weight = weight.astype(x.credit.turn.dtype)
  total = jnp.sum(weight, axis=1, keepdims=True)
  share = weight / jnp.where(total > 0, total, 1)
  return x.credit.replace(turn=jnp.where(won, share, -share)), {}


@registry.register('link', gives=('along_turns',))
def new_best(x: LinkInputs, *, gamma: Discount = 1.0) -> Linked:
  """x_k <- γ m_k − m_{k−1}, with m_k = max(0, max_{j ≤ k} Σ_{i ≤ j} x_i).

  What the stream holds is how far each turn got; only what goes beyond the
  best so far counts, so that stepping back and forth earns nothing. With γ
  the potential's they are shaping rewards of m (MiRA, arXiv 2603.19685); m
  is not set back to 0 at the end: a milestone that was reached stays paid.

  Args:
    gamma: discount per turn
  """
  chex.assert_rank(x.credit.turn, 2)
  mask = counting.counted(x.batch, 'turn')
  gained = jnp.where(mask, x.credit.turn, 0)
  best = jax.lax.cummax(jnp.cumsum(gained, axis=1), axis=1)
  best = jnp.maximum(best, 0)
  before = jnp.pad(best[:, :-1], ((0, 0), (1, 0)))
  value = jnp.where(mask, gamma * best - before, 0)
  return x.credit.replace(turn=value), {}
