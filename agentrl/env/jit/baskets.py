"""Baskets: which of three is taken depends on whose taste counts.

  a_.-B.AB!   one apple; two berries; two of each, spoilt
  -B.

Each turn offers three baskets in random order: two fresh ones, of which one has
more apples and the other more berries, and one that is full and spoilt. One is
taken by saying what it holds. What is wanted is not said: the rewards are what
the task's user likes, and observations do not tell who that is. So there is
something to learn from preferences, users disagree, and who counts fruit alone
is given spoilt fruit.
"""

import dataclasses
from collections.abc import Iterator
from typing import Annotated, ClassVar

import chex
import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from agentrl import domain
from agentrl.env import base as env_base
from agentrl.env import splits
from agentrl.env.jit import base

OFFERS, MOST = 3, 2  # baskets of a turn; apples or berries of one
APPLES, BERRIES, SPOILT = range(3)
KINDS = MOST + 1
FRESH = tuple(f'{a}{b}.' for a in '-aA' for b in '_bB')  # by 3 apples + berries
ROTTEN = 'AB!'
# What a user likes, by apples, berries and spoilt. Among the baskets of a turn
# it is an order of rank as well, and not among sums over turns.
TASTES = np.array([[3, -1, -9], [-1, 3, -9]]) / 9


class BasketsState(struct.PyTreeNode):
  """State of a trajectory; `turn`, `gained` and `best` change."""

  goods: jax.Array  # [K, O, 3] i32  apples, berries, spoilt
  taste: jax.Array  # [3] f32
  user: jax.Array  # [] i32
  turn: jax.Array  # [] i32  turns done
  right: jax.Array  # [] bool  the user liked no other basket more, so far


@dataclasses.dataclass(frozen=True)
class Baskets:
  """Tasks and environment. A task is goods i32[K, O, 3] and user i32[].

  A turn earns what its user likes of the basket; a message that names none of
  those offered takes nothing and earns -1. Users of even number like apples,
  those of odd number berries, and none what is spoilt.
  """

  turns: domain.Count = 3  # K
  users: Annotated[int, domain.Whole(1, 64)] = (
    2  # whose tastes are asked for; 1: apples are liked
  )
  first: domain.Count0 = 0  # number of the first of them
  unit: domain.Positive = 1.0  # of apples in the column, such as grams

  columns: ClassVar[tuple[str, ...]] = ('apples', 'berries', 'spoilt', 'user')
  actions: ClassVar[tuple[str, ...]] = (*FRESH, ROTTEN)
  pieces: ClassVar[tuple[str, ...]] = ('-', 'a', 'A', '_', 'b', 'B', '.', '!')
  worker: ClassVar[str] = env_base.JIT
  system: ClassVar[str] = ''
  legend: ClassVar[str] = (
    'three baskets, each: - a A no apple, one, two; _ b B berries; . fresh, !'
    ' spoilt\nname the one that is liked best'
  )

  def __post_init__(self):
    domain.check_fields(self)

  @property
  def obs_len(self) -> int:
    return 3 * OFFERS

  def env(self) -> 'Baskets':
    return self

  def name(self) -> str:
    """Returns baskets-<turns>x<users>-<hash of all settings>."""
    digest = splits.content_key(repr(self).encode())[:8]
    return f'baskets-{self.turns}x{self.users}-{digest}'

  def tasks(
    self, split: str, count: int, seed: int
  ) -> Iterator[base.SolvedTask]:
    """Yields distinct tasks with the choices that are liked best."""
    rng = splits.split_rng(split, seed)

    def draw():
      goods = np.stack([_offers(rng) for _ in range(self.turns)])
      user = self.first + int(rng.integers(self.users))
      liked = goods @ TASTES[user % len(TASTES)]  # [K, O]
      task = {'goods': goods, 'user': np.int32(user)}
      key = splits.content_key(goods.tobytes() + str(user).encode())
      best = np.take_along_axis(_named(goods), liked.argmax(1)[:, None], 1)
      return key, (task, best[:, 0].tolist())

    return splits.distinct_tasks(draw, base.solved_task, split, count)

  def reset(
    self, key: jax.Array, task: dict[str, chex.Array]
  ) -> tuple[BasketsState, jax.Array]:
    del key  # a task leaves nothing open
    user = jnp.asarray(task['user'], jnp.int32)
    state = BasketsState(
      goods=jnp.asarray(task['goods'], jnp.int32),
      taste=jnp.asarray(TASTES, jnp.float32)[user % len(TASTES)],
      user=user,
      turn=jnp.int32(0),
      right=jnp.array(True),
    )
    return state, self._observe(state)

  def step(
    self, state: BasketsState, action: jax.Array, key: jax.Array
  ) -> tuple[BasketsState, jax.Array, jax.Array, jax.Array]:
    del key  # nothing is random
    over = state.turn >= self.turns
    offered = _offered(state)
    liked = offered @ state.taste  # [O]
    named = _named(offered) == action
    got = jnp.where(jnp.any(named), jnp.max(jnp.where(named, liked, -9)), -1.0)
    best = got >= jnp.max(liked) - 1e-6
    after = state.replace(
      turn=jnp.where(over, state.turn, state.turn + 1),
      right=state.right & (over | best),
    )
    reward = jnp.where(over, 0.0, got).astype(jnp.float32)
    return after, self._observe(after), reward, after.turn >= self.turns

  def score(self, state: BasketsState) -> jax.Array:
    """Returns 1 if every choice was one that the user likes best; f32[]."""
    whole = state.turn >= self.turns
    return (state.right & whole).astype(jnp.float32)

  def info(
    self, before: BasketsState, action: jax.Array, after: BasketsState
  ) -> dict[str, jax.Array]:
    """Returns what the basket of this turn held, and who is the user."""
    del after
    offered = _offered(before)
    named = (_named(offered) == action) & (before.turn < self.turns)
    at = jnp.argmax(named)
    held = jnp.where(jnp.any(named), offered[at], 0)
    held = held.astype(jnp.float32)
    return {
      'apples': held[APPLES] * self.unit,
      'berries': held[BERRIES],
      'spoilt': held[SPOILT],
      'user': before.user.astype(jnp.float32),
    }

  def demonstrate(self, state: BasketsState, key: jax.Array) -> jax.Array:
    """Takes any basket: what is shown is how to choose, not what."""
    return _named(_offered(state))[jax.random.randint(key, (), 0, OFFERS)]

  def _observe(self, state: BasketsState) -> jax.Array:
    """Renders the offers as piece indices i32[obs_len]."""
    return (_offered(state) + jnp.array([[0, KINDS, 2 * KINDS]])).reshape(-1)


def _offered(state: BasketsState) -> jax.Array:
  """Returns the baskets of this turn, or of the last: [O, 3] i32."""
  last = state.goods.shape[0] - 1
  return state.goods[jnp.minimum(state.turn, last)]


def _named(goods):
  """Returns the action that takes each basket [..., 3]: [...] i32."""
  fresh = KINDS * goods[..., APPLES] + goods[..., BERRIES]
  spoilt = goods[..., SPOILT]
  return fresh * (1 - spoilt) + len(FRESH) * spoilt


def _offers(rng: np.random.Generator) -> np.ndarray:
  """Draws the baskets of a turn: [O, 3] i32.

  Of the fresh ones one has more apples, and the other more berries.
  """
  fresh = np.zeros((OFFERS, 3), np.int32)
  apples = rng.choice(MOST + 1, 2, replace=False)
  berries = np.sort(rng.choice(MOST + 1, 2, replace=False))
  fresh[:2, APPLES] = apples
  fresh[:2, BERRIES] = berries if apples[0] > apples[1] else berries[::-1]
  fresh[2] = MOST, MOST, 1
  return rng.permutation(fresh)
