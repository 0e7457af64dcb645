"""Forks inside jit: copies of environment states and KV caches.

All places are rows of arrays on the device. A turn gathers the rows that are
asked for, plays them in the slots of a rollout (`jit.play_turn`) and puts the
results into new rows. With a full history the cache is copied along, and a turn
reads what is new to it alone.
"""

import collections
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from agentrl.env.jit import base as env_base
from agentrl.env.jit import planned
from agentrl.rollout import jit as jit_rollout
from agentrl.rollout import resumed
from agentrl.rollout.actor import Actor
from agentrl.rollout.forks import COUNTS, Ask, Played, refused
from agentrl.rollout.jit_context import Slots
from agentrl.rollout.jit_sizes import RolloutSizes, TokenizedEnv, capacity
from agentrl.rollout.keys import Keys
from agentrl.rollout.record import Record
from agentrl.types import Array, Attempts, PyTree


class Places(struct.PyTreeNode):
  """Where trajectories stand."""

  task: Array  # [n] i32
  at: dict[str, Any]  # [n, ...]  of Slots, by resumed.PLACE
  record: Record  # [n, K, ...]
  cache: PyTree  # [n, ...]  of an actor; () where each turn begins an empty one


class JitForks:
  """Places of an environment inside jit; see `forks.Forks`."""

  def __init__(
    self,
    world: TokenizedEnv,
    sizes: RolloutSizes,
    speaker: Callable[[PyTree], Actor],
    params: PyTree,
    key: jax.Array,
    *,
    places: int,
    temperature: float = 1.0,
  ):
    """Compiles nothing yet.

    Args:
      speaker: parameters -> the policy
      key: of all that is drawn
      places: capacity; a place has a row of a record, and a cache of its own
        where the history is full
    Raises:
      ValueError: the environment has several seats.
    """
    if isinstance(world.env, env_base.SeatedEnv):
      raise refused(type(world.env).__name__, 'its seats move in turn')
    self.counts: collections.Counter[str] = collections.Counter()
    self._world, self._sizes, self._params = world, sizes, params
    self._speaker, self._key = speaker, key
    self._capacity, self._temperature = places, temperature
    self._places: Places | None = None
    self._used = 0
    self._start = jax.jit(self._started, donate_argnums=1)
    self._step = jax.jit(self._stepped, donate_argnums=1)

  def begin(self, tasks: Sequence[int]) -> list[int]:
    self.counts = collections.Counter(dict.fromkeys(COUNTS, 0))
    self._used, roots = 0, []
    for chunk in _chunks(tasks, self._sizes.slots):
      new = self._new(len(chunk))
      pad = self._sizes.slots - len(chunk)
      task = np.pad(np.asarray(chunk, np.int32), (0, pad))
      to = np.pad(np.asarray(new, np.int32), (0, pad), constant_values=-1)
      places = self._places or self._empty()
      self._places = self._start(self._params, places, task, to)
      roots += new
    return roots

  def play(self, asks: Sequence[Ask]) -> list[Played]:
    played: list[Played] = []
    for chunk in _chunks(asks, self._sizes.slots):
      new = self._new(len(chunk))
      n = self._sizes.slots
      at = np.full((4, n), -1, np.int32)
      at[:3, : len(chunk)] = np.array(chunk).T
      at[3, : len(chunk)] = new
      self._places, out = self._step(self._params, self._places, *at)
      played += self._read(jax.device_get(out), new)
    return played

  def record(self, places: Sequence[int]) -> Record:
    assert self._places is not None, 'begin makes places'
    at = np.asarray(places, np.int32)
    return jax.device_get(jax.tree.map(lambda x: x[at], self._places.record))

  def _new(self, count: int) -> list[int]:
    """Takes places that are free."""
    first, self._used = self._used, self._used + count
    if self._used > self._capacity:
      raise ValueError(
        f'places must be >= {self._used} for what is asked, got'
        f' {self._capacity}'
      )
    return list(range(first, self._used))

  def _empty(self) -> Places:
    """Returns all places, unused."""
    n = self._sizes.slots
    zero = jnp.zeros(n, jnp.int32)
    one = jax.eval_shape(self._beginning, self._params, zero)

    def empty(x):
      return jnp.zeros((self._capacity, *x.shape[1:]), x.dtype)

    return jax.tree.map(empty, one)

  def _attempts(self, task: Array) -> Attempts:
    n, turns = task.shape[0], self._sizes.turns
    zero = jnp.zeros(n, jnp.int32)
    return Attempts(
      task=task,
      group=zero,
      arm=zero,
      limit=jnp.full(n, turns, jnp.int32),
      temperature=jnp.full(n, self._temperature, jnp.float32),
    )

  def _keys(self, task: Array, call: Array) -> Keys:
    """Derives the keys of calls, numbered from 0; -1: a beginning."""
    fold = jax.vmap(jax.random.fold_in)
    each = jax.vmap(jax.random.fold_in, (None, 0))(self._key, task)
    own = fold(each, call + 1)
    return Keys(own, own, jnp.zeros_like(task))

  def _beginning(self, params, task: Array) -> Places:
    """Returns places where tasks [n] begin, with empty caches."""
    n, sizes = task.shape[0], self._sizes
    keys = self._keys(task, jnp.full(n, -1))
    slots = jit_rollout.start(
      self._world, sizes, self._attempts(task), keys, jnp.arange(n)
    )
    cache = self._cache(params, n) if _keeps(sizes) else ()
    return _places(task, slots, cache)

  def _cache(self, params, n: int):
    size = capacity(self._world, self._sizes).cache
    return self._speaker(params).cache(n, size)

  def _started(self, params, places: Places, task, to) -> Places:
    return _put(places, to, self._beginning(params, task))

  def _stepped(self, params, places: Places, place, task, call, to):
    """Plays a turn at places [n]: -> all places, and what was played."""
    n = place.shape[0]
    mine = jax.tree.map(lambda x: x[jnp.maximum(place, 0)], places)
    traj = jnp.where(place >= 0, jnp.arange(n, dtype=jnp.int32), n)
    slots = Slots(
      traj=traj,
      follows=jnp.ones(n, bool),
      waiting=jnp.int32(n),
      record=mine.record,
      **mine.at,
    )
    kept = _keeps(self._sizes)
    after, over, cache = jit_rollout.play_turn(
      self._world,
      self._sizes,
      self._speaker(params),
      self._attempts(mine.task),
      self._keys(task, call),
      slots,
      mine.cache if kept else self._cache(params, n),
    )
    new = _places(mine.task, after, cache if kept else ())
    out = self._outcome(after, slots, over)
    return _put(places, to, new), out

  def _outcome(self, after: Slots, before: Slots, over: Array) -> dict:
    """Returns what the host is told of a turn, [n, ...] each."""
    env, k = self._world.env, before.turn
    n = k.shape[0]
    at = lambda x: x[jnp.arange(n), k]  # noqa: E731
    r = after.record
    out = {
      'message': at(r.message),
      'tokens': at(r.message_len),
      'logp': jnp.sum(at(r.logp), axis=-1),
      'action': at(r.action),
      'reward': at(r.reward),
      'read': at(r.context_len) + (_keeps(self._sizes) & (k > 0)),
      'reused': before.filled,
      'over': over,
      'score': jax.vmap(env.score)(after.state),
      'state': after.state,
    }
    return out | ({'value': self._value(after.state)} if valued(env) else {})

  def _value(self, state) -> Array:
    """Returns what the environment says that states are worth: [n]."""
    env: Any = self._world.env  # a ValuedEnv
    return jax.vmap(env.value)(state)

  def _read(self, out: dict[str, Any], new: Sequence[int]) -> list[Played]:
    """Makes host values of a turn at the first places, and counts them."""
    n = len(new)
    self.counts['calls'] += n
    self.counts['env_steps'] += n
    for name in ('tokens', 'read', 'reused'):
      self.counts[name] += int(out[name][:n].sum())
    states = jax.tree.leaves(out['state'])
    return [
      Played(
        place=place,
        message=tuple(out['message'][i, : out['tokens'][i]].tolist()),
        logp=float(out['logp'][i]),
        reward=float(out['reward'][i]),
        ended=bool(out['over'][i]),
        score=float(out['score'][i]),
        state=b''.join(np.asarray(x[i]).tobytes() for x in states),
        value=float(out['value'][i]) if 'value' in out else None,
        parsed=str(out['action'][i]) if out['action'][i] >= 0 else None,
      )
      for i, place in enumerate(new)
    ]


def _keeps(sizes: RolloutSizes) -> bool:
  """Returns whether a turn goes on in the cache of the turn before."""
  return sizes.history == 'full' and sizes.turns > 1


def valued(env: env_base.JitEnv) -> bool:
  """Returns whether an environment knows what its states are worth."""
  return isinstance(env, planned.ValuedEnv) and 'progress' in env.columns


def _places(task: Array, slots: Slots, cache: PyTree) -> Places:
  at = {name: getattr(slots, name) for name in resumed.PLACE}
  return Places(task=task, at=at, record=slots.record, cache=cache)


def _put(places: Places, to: Array, new: Places) -> Places:
  """Writes new places to rows [n]; -1: nowhere."""
  n = places.task.shape[0]
  to = jnp.where(to >= 0, to, n)
  return jax.tree.map(
    lambda old, x: old.at[to].set(x.astype(old.dtype), mode='drop'),
    places,
    new,
  )


def _chunks(x: Sequence, size: int) -> list[Sequence]:
  return [x[i : i + size] for i in range(0, len(x), size)]
