"""Small MDPs whose values are known exactly.

X states of all tasks together, A actions, K turns at most. An action is
replaced by a random one, all equally likely, with probability `slip`. Arriving
in a state that is won pays 1, and nothing else pays.
"""

from collections.abc import Callable
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from agentrl.types import Array

DISCOUNT = 0.9  # of the value behind `progress` in the grid, per move


class MDP(NamedTuple):
  """The tasks of one seed."""

  next: Array  # [X, A] i32  where the action leads; itself where it is over
  start: Array  # [tasks] i32
  won: Array  # [X] bool
  over: Array  # [X] bool  nothing happens any more; so where it is won
  potential: Array  # [X] f32  the best policy's, in [0, 1]
  slip: Array  # [] f32


class MDPSize(NamedTuple):
  """Sizes of an MDP before it is drawn."""

  make: Callable[[Array, int], MDP]  # (key, tasks) -> World
  states: int  # of a task
  actions: int
  turns: int


def bifurcation(
  length: int = 5, choices: int = 4, slip: float = 0.0
) -> MDPSize:
  """Builds an MDP of `length` turns; which one of them matters differs by task.

  A state is (task, turn, mark); the mark says whether the choice was right,
  once it was made. Won are trajectories that chose right, at their end.
  """
  _probability(slip)
  if length < 1 or choices < 2:
    raise ValueError(
      f'length={length} and choices={choices} make no bifurcation; use a'
      ' length of at least 1 and 2 or more choices'
    )

  def make(key, tasks: int) -> MDP:
    turn, mark = jnp.divmod(jnp.arange((length + 1) * 3), 3)
    place, right = jax.random.split(key)
    decisive = jax.random.randint(place, (tasks, 1, 1), 0, length)
    right = jax.random.randint(right, (tasks, 1, 1), 0, choices)
    chosen = jnp.where(jnp.arange(choices)[None, None] == right, 1, 2)
    now = turn[None, :, None] == decisive
    after = jnp.where(now, chosen, mark[None, :, None])
    after += 3 * (turn[None, :, None] + 1)
    over = turn == length
    stay = jnp.arange(over.size)[None, :, None]
    return _whole(
      jnp.where(over[None, :, None], stay, after),
      jnp.zeros(tasks, jnp.int32),
      jnp.broadcast_to(over & (mark == 1), (tasks, over.size)),
      jnp.broadcast_to(over, (tasks, over.size)),
      slip,
      discount=1.0,
    )

  return MDPSize(make, (length + 1) * 3, choices, length)


def key_door(size: int = 5, turns: int = 24, slip: float = 0.1) -> MDPSize:
  """Returns a grid in which a key has to be fetched before the door opens.

  A state is (task, has the key, cell); key, door and start are in different
  cells. Moves against the wall stay.
  """
  _probability(slip)
  if size < 2 or turns < 1:
    raise ValueError(
      f'size={size} and turns={turns} make no grid to walk; use a size of at'
      ' least 2 and 1 turn or more'
    )

  def make(key, tasks: int) -> MDP:
    cells = size * size
    draw = lambda k: jax.random.permutation(k, cells)[:3]  # noqa: E731
    start, lock, door = jax.vmap(draw)(jax.random.split(key, tasks)).T
    to = _moves(size)  # [cells, 4]
    on_key = to[None] == lock[:, None, None]
    without = to[None] + cells * on_key
    having = jnp.broadcast_to(to[None] + cells, without.shape)
    both = jnp.concatenate([without, having], axis=1)
    won = jnp.arange(2 * cells)[None] == cells + door[:, None]
    stay = jnp.arange(2 * cells)[None, :, None]
    both = jnp.where(won[..., None], stay, both)
    return _whole(both, start, won, won, slip, discount=DISCOUNT)

  return MDPSize(make, 2 * size * size, 4, turns)


def chain(
  length: int = 10, turns: int = 40, actions: int = 4, slip: float = 0.1
) -> MDPSize:
  """Returns a chain of `length` places with one action on and one back at each.

  Which actions these are differs by place and task; the others stay. Won is
  the last place, and the start is the first, at which the one back stays.
  """
  _probability(slip)
  if min(length, actions) < 2 or turns < length - 1:
    raise ValueError(
      f'length={length}, actions={actions} and turns={turns} make no chain that'
      ' can be won; use 2 or more of each and at least length - 1 turns'
    )

  def make(key, tasks: int) -> MDP:
    keys = jax.random.split(key, (tasks, length))
    shuffle = jax.vmap(jax.vmap(lambda k: jax.random.permutation(k, actions)))
    rank = shuffle(keys)  # [tasks, length, A]: 0 leads on, 1 back
    place = jnp.arange(length)[None, :, None]
    step = jnp.select([rank == 0, rank == 1], [1, -1], 0)
    won = jnp.broadcast_to(jnp.arange(length) == length - 1, (tasks, length))
    to = jnp.where(won[..., None], place, jnp.maximum(place + step, 0))
    start = jnp.zeros(tasks, jnp.int32)
    return _whole(to, start, won, won, slip, discount=DISCOUNT)

  return MDPSize(make, length, actions, turns)


WORLDS: dict[str, Callable[..., MDPSize]] = {
  'bifurcation': bifurcation,
  'key_door': key_door,
  'chain': chain,
}


def _moves(size: int) -> Array:
  """Finds each cell's neighbours up, down, left, right: [cells, 4] i32."""
  row, column = jnp.divmod(jnp.arange(size * size), size)
  steps = jnp.array([[-1, 0], [1, 0], [0, -1], [0, 1]])
  to = jnp.stack([row, column], -1)[:, None] + steps[None]
  to = jnp.clip(to, 0, size - 1)
  return (to[..., 0] * size + to[..., 1]).astype(jnp.int32)


def _probability(slip: float) -> None:
  if not 0 <= slip <= 1:
    raise ValueError(f'slip must be a probability in [0, 1], got {slip}')


def _whole(to, start, won, over, slip, *, discount: float) -> MDP:
  """Joins tables of tasks [tasks, S, ...] into one of X = tasks * S states."""
  tasks, states, actions = to.shape
  first = states * jnp.arange(tasks, dtype=jnp.int32)
  to = (to + first[:, None, None]).reshape(-1, actions).astype(jnp.int32)
  slip = jnp.float32(slip)
  won, over = won.reshape(-1), over.reshape(-1)
  best = _best(to, won, over, slip, discount)
  return MDP(to, start + first, won, over, best, slip)


def _best(to, won, over, slip, discount: float, rounds: int = 100) -> Array:
  """Returns V(s) = 1 where won, 0 where lost, else γ max_a E V(s'): [X]."""

  def back(_, v):
    q = _slipped(v[to], slip)
    return jnp.where(over, won, discount * jnp.max(q, axis=-1))

  return jax.lax.fori_loop(0, rounds, back, won.astype(jnp.float32))


def _slipped(q, slip):
  """Turns chosen actions' probabilities [..., A] into the executed ones'."""
  return (1 - slip) * q + slip * jnp.mean(q, axis=-1, keepdims=True)


def values(world: MDP, policy: Array, turns: int) -> tuple[Array, Array]:
  """Returns the chance to win under a policy, by dynamic programming.

    Q_k(s, a) = E V_{k+1}(s');   V_k(s) = Σ_a π(a|s) Q_k(s, a);   V_K = won

  Args:
    policy: [X, A], probabilities
  Returns: V [K + 1, X] and Q [K, X, A].
  """
  chex.assert_equal_shape([policy, world.next])
  won = world.won.astype(policy.dtype)

  def back(v, _):
    q = _slipped(v[world.next], world.slip)
    new = jnp.where(world.over, won, jnp.sum(policy * q, axis=-1))
    return new, (new, q)

  _, (v, q) = jax.lax.scan(back, won, None, length=turns, reverse=True)
  return jnp.concatenate([v, won[None]]), q


def success(world: MDP, policy: Array, turns: int) -> Array:
  """Returns the exact chance to win, mean over the tasks: [] f32."""
  return jnp.mean(values(world, policy, turns)[0][0, world.start])
