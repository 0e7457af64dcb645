"""Values that pass through states which trajectories of a group share.

The turns of a batch make a graph: a node for every cell (group and state), an
edge for every turn, from its cell to the next turn's. Let V be the value of a
cell under the policy that played, with γ per turn and 0 beyond the end. It is
the only solution of

  V(c) = mean over the turns t of c of  [ r_t + γ V(c(t+1)) ]

on this graph, as every trajectory ends. A mean of returns, as GiGPO's, uses
what followed in the same trajectories; V uses what followed any visit of the
states that came after. n sweeps of this equation from the mean return to go

  V_0(c) = mean of  Σ_{j ≥ t} γ^{j-t} r_j

are means of n-step returns that go on with what trajectories themselves
earned, so that few sweeps lean less on the graph. A turn's credit is its
temporal difference r_t + γ V(c(t+1)) - V(c(t)), an estimate of its advantage.
Where no state recurs, V is every turn's own return to go and all credit is 0:
what is left is the credit of the episode.
"""

import chex
import jax
import jax.numpy as jnp

from agentrl import ops, registry, segment
from agentrl.advantage import group_stats, returns
from agentrl.domain import Columns, Count0, Discount
from agentrl.types import Array, Linked, LinkInputs


@registry.register('link', needs=('*by',), gives=('along_turns',))
def graph_return(
  x: LinkInputs,
  *,
  by: Columns = ('group', 'state'),
  gamma: Discount = 0.95,
  sweeps: Count0 = 16,
) -> Linked:
  """x_t = r_t + γ V(c(t+1)) − V(c(t)), V shared by the turns of a cell.

  Not in a paper. Trajectories with a turn whose judge failed are left out, as
  their returns are unknown; a turn that branches share counts once.

  Args:
    by: columns whose equal values make a cell
    gamma: per turn; below 1 it prefers short solutions as well
    sweeps: n; 0 leaves the mean return to go of the cell as its value
  """
  valid = group_stats.counted(x.batch, 'trajectory')
  cell, one = group_stats.cells(x.batch, by), valid.astype(x.credit.turn.dtype)
  weight = ops.unit_weights('node', cell, x.batch.turns.node, one, one)
  reward = returns.reward(x.batch).astype(one.dtype)
  v = state_values(reward, cell, weight, valid, gamma=gamma, sweeps=sweeps)
  value = reward + gamma * segment.next_turn(v, valid) - v
  # Halves and thirds of a node do not add up to one exactly.
  shared = jnp.sum(jnp.where(_total(weight, cell) > 1.5, one, 0))
  credit, _ = returns.earn(x, jnp.where(valid, value, 0))
  return credit, {'shared': (shared, jnp.sum(one))}


def state_values(
  reward: Array,
  cell: Array,
  weight: Array,
  valid: Array,
  *,
  gamma: float,
  sweeps: int,
) -> Array:
  """Returns V of each turn's cell after `sweeps` sweeps: [B, K], 0 if invalid.

  Args:
    reward: [B, K], in units of the return
    cell: [B, K] i32, equal for the turns of a cell
    weight: [B, K], of the turn in its cell's mean
    valid: [B, K] bool
  """
  chex.assert_equal_shape([reward, cell, weight, valid])
  weight = jnp.where(valid, weight, 0)
  n = _total(weight, cell)

  def mean(x):
    x = _total(weight * x, cell) / jnp.where(n > 0, n, 1)
    return jnp.where(valid, x, 0)

  def sweep(v, _):
    return mean(reward + gamma * segment.next_turn(v, valid)), None

  v = mean(segment.accumulate_turns(reward, gamma, valid))
  return jax.lax.scan(sweep, v, None, length=sweeps)[0]


def _total(x: Array, cell: Array) -> Array:
  total = segment.segment_sum(x.reshape(-1), cell.reshape(-1))
  return total.reshape(x.shape)
