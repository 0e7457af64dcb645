"""Two action values and two state values per turn, by temporal differences.

ArCHer (2402.19446). A critic of four heads reads the rows: Q_1, Q_2 at the
last token of a message, which has seen all before it, V_1, V_2 at the first,
which has seen none of it. A second network, the critic's moving average,
makes the targets, in which the lower of two heads speaks for both:

  V_j(s_k) <- min_i Q'_i(s_k, a_k)        a_k as the policy sampled it
  Q_j(s_k, a_k) <- r_k + gamma min_i V'_i(s_k+1),  V' = 0 after a true end

  A_k = min_j Q_j(s_k, a_k) - min_j V_j(s_k)

`archer_by_head` is the authors' code: head j learns from head j alone.

A message that does not end in its end of turn is seen by Q up to its last
token. A trajectory that a limit cut short has no next state to ask: its last
Q is not regressed, and neither is that of a candidate that was not played.
"""

from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp

from agentrl import registry, segment
from agentrl.advantage import group_stats, returns
from agentrl.domain import Count, Discount, Share
from agentrl.ops import counting
from agentrl.signal import gradient_steps
from agentrl.signal.base import Context, Signal
from agentrl.signal.moving_average import polyak
from agentrl.types import Array, Batch, Status

Heads = tuple[Array, Array]


def lower(one: Array, two: Array) -> Heads:
  """Lets both heads regress on the lower target."""
  least = jnp.minimum(one, two)
  return least, least


def by_head(one: Array, two: Array) -> Heads:
  """Lets each head regress on its own target."""
  return one, two


_register = registry.register(
  'signal', needs=('role:critic', 'role:target'), gives=('signal:archer',)
)


@_register
def archer(
  context: Context,
  *,
  gamma: Discount = 0.95,
  tau: Share = 0.1,
  steps: Count = 8,
) -> Signal:
  """Returns A [B, K], from the critic after its steps on this batch.

  Loss: sum of the four heads' mean squared errors.

  Args (hyper-parameters):
    gamma: per turn
    tau: target += tau (critic - target), after each step
    steps: gradient steps on the whole batch, each with fresh targets
  """
  return _archer(context, lower, gamma, tau, steps)


@_register
def archer_by_head(
  context: Context,
  *,
  gamma: Discount = 0.95,
  tau: Share = 0.1,
  steps: Count = 8,
) -> Signal:
  """Runs `archer` whose heads have a target each, as in the released code.

  Args:
    gamma: discount per turn
    tau: target += tau (critic - target), after each step
    steps: gradient steps of the critic, each iteration
  """
  return _archer(context, by_head, gamma, tau, steps)


def _archer(
  context: Context,
  pair: Callable[[Array, Array], Heads],
  gamma: float,
  tau: float,
  steps: int,
) -> Signal:
  def value(params, batch: Batch):
    return context.outputs('critic', params, batch.rows, 'value').value

  def loss(out, rows, extra):
    goal, weight = extra
    return jnp.sum(weight * jnp.square(out.value - goal)), {}

  def update(state, batch, signals, credit):
    def once(state, _):
      values = value(state.params['target'], batch)
      extra = td_targets(values, batch, gamma, pair)
      state, metrics = gradient_steps.fit(
        context, 'critic', state, batch, extra, loss, ('value',)
      )
      params = state.params
      stepped = metrics['critic/grad_norm'][0] > 0
      rate = jnp.where(stepped, tau, 0.0)
      target = polyak(params['target'], params['critic'], rate)
      return state.replace(params={**params, 'target': target}), metrics

    state, metrics = jax.lax.scan(once, state, None, length=steps)
    return state, jax.tree.map(jnp.sum, metrics)

  def score(state, batch, signals):
    a = advantage(value(state.params['critic'], batch), batch)
    return {'archer': a}, {}

  return Signal('update_then_score', score, update)


def read(value: Array, batch: Batch):
  """Returns ((Q_1, Q_2), (V_1, V_2)), [B, K] each, of values [N, T, 4]."""
  chex.assert_shape(value, (*batch.rows.tokens.shape, 4))
  index = segment.index(batch)
  first, last = index.bounds(batch.rows.sampled)
  q1, q2, v1, v2 = (
    index.at_turns(value[..., head], pick)
    for head, pick in enumerate((last, last, first, first))
  )
  return (q1, q2), (v1, v2)


def advantage(value: Array, batch: Batch) -> Array:
  """Returns A = min Q - min V [B, K], 0 where nothing was sampled."""
  (q1, q2), (v1, v2) = read(value, batch)
  a = jnp.minimum(q1, q2) - jnp.minimum(v1, v2)
  return jnp.where(returns.sampled_turns(batch), a, 0)


def td_targets(
  value: Array, batch: Batch, gamma: float, pair: Callable = lower
):
  """Returns the TD target of each head, and its weight: [N, T, 4] both.

  Args:
    value: [N, T, 4] of the target network
    pair: `lower` or `by_head`
  The weights of a head sum to 1 over the turns it is regressed at.
  """
  rows, index = batch.rows, segment.index(batch)
  q, v = read(value, batch)
  has = returns.sampled_turns(batch)
  follows = segment.next_turn(has.astype(jnp.int32), has) > 0
  status = batch.status[:, None]
  ended = (status == Status.SOLVED) | (status == Status.FAILED)
  ended &= counting.played(batch)[:, None]
  counted = group_stats.counted(batch, 'turn')
  reward = returns.reward(batch)
  goals = [reward + gamma * segment.next_turn(x, has) for x in pair(*v)]
  goals += pair(*q)

  def share(pick, turns):
    """Weighs the picked tokens of these turns, by their sum."""
    weight = jnp.where(pick & index.to_tokens(turns), rows.weight, 0)
    total = jnp.sum(weight)
    return weight / jnp.where(total > 0, total, 1)

  first, last = index.bounds(rows.sampled)
  weights = [share(last, counted & (follows | ended))] * 2
  weights += [share(first, has & counted)] * 2
  goal = jnp.stack([index.to_tokens(x) for x in goals], axis=-1)
  return goal, jnp.stack(weights, axis=-1).astype(goal.dtype)
