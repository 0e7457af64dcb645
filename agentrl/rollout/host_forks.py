"""Forks of host environments: attempts that repeat the turns before a place.

An attempt of one more turn is played by the loop of every host rollout
(host.py). Its environment goes on from where one stood (workers/forked.py), and
the engine's slots share the past with what is cached of it.
"""

import collections
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.env import base
from agentrl.rollout import host, message_spans, pack
from agentrl.rollout.bundle import HostEnvBundle
from agentrl.rollout.engine.engine import Completion, Engine
from agentrl.rollout.forks import COUNTS, Ask, Played, refused
from agentrl.rollout.record import Record
from agentrl.rollout.workers.forked import STANDING, Timelines
from agentrl.rollout.workers.pool import EnvBackend, EnvWorker
from agentrl.task.base import make_attempts
from agentrl.text.tool_calls.base import spoken
from agentrl.types import Status

HISTORIES = ('full', 'turn')
PROGRESS = 'progress'  # a column: the change of a potential, 0 at the start


class _Place(NamedTuple):
  """Where a trajectory stands."""

  task: int
  seed: int  # of its environment
  episode: pack.Episode


class HostForks:
  """Places of host environments; see `forks.Forks`."""

  def __init__(
    self,
    world: HostEnvBundle,
    engine: Engine,
    make: Callable[[], EnvBackend],
    key: jax.Array,
    *,
    workers: int,
    temperature: float = 1.0,
    standing: int = STANDING,
  ):
    """Starts no environment yet.

    Args:
      engine: with the parameters of the policy
      make: an environment of the family
      key: of all that is drawn
      workers: turns that are played at a time
      standing: environments that are kept at most
    Raises:
      ValueError: what cannot be replayed.
    """
    if isinstance(world.family, base.PlaysPrograms):
      raise refused(type(world.family).__name__, 'programs play its tasks')
    if world.limits.history not in HISTORIES:
      raise refused(
        f'rollout.history={world.limits.history!r}', f'use one of {HISTORIES}'
      )
    self.counts: collections.Counter[str] = collections.Counter()
    self._world, self._engine, self._key = world, engine, key
    self._temperature = temperature
    self._timelines = Timelines(make, standing=standing)
    self._workers = [
      EnvWorker(self._timelines.open, lambda: None) for _ in range(workers)
    ]
    self._places: list[_Place] = []

  def close(self) -> None:
    """Closes all environments."""
    for worker in self._workers:
      worker.close()
    self._timelines.forget()

  def begin(self, tasks: Sequence[int]) -> list[int]:
    self.counts = collections.Counter(dict.fromkeys(COUNTS, 0))
    self._timelines.forget()
    self._engine.forget()  # so that counts do not depend on what was before
    at = np.asarray(tasks, np.int32)
    seeds = _drawn(self._key, at, np.full_like(at, -1))
    nothing = pack.Episode((), Status.SCHEDULE, 0.0)
    self._places = [
      _Place(task, int(seed[0]) >> 1, nothing)
      for task, seed in zip(tasks, seeds, strict=True)
    ]
    return list(range(len(tasks)))

  def play(self, asks: Sequence[Ask]) -> list[Played]:
    if not asks:
      return []
    at = [self._places[ask.place] for ask in asks]
    ended = self._one_more(at, asks)
    self._count(at, ended)
    return [self._played(place, e) for place, e in zip(at, ended, strict=True)]

  def record(self, places: Sequence[int]) -> Record:
    return self._world.record([self._places[i].episode for i in places])

  def _one_more(
    self, at: Sequence[_Place], asks: Sequence[Ask]
  ) -> list[pack.Episode]:
    """Plays a turn behind each place: its turns, and one more."""
    done = [len(place.episode.turns) for place in at]
    attempts = make_attempts(
      np.array([place.task for place in at]), 1, 1, self._temperature
    ).replace(limit=np.array(done, np.int32) + 1)
    tasks, calls = (np.array([ask[i] for ask in asks]) for i in (1, 2))
    keys = _drawn(self._key, tasks, calls)  # [B, 2]
    turns = self._world.limits.turns

    def given(b: int, turn: int, state: int) -> Completion | None:
      del state
      before = at[b].episode.turns
      return before[turn].spoken if turn < len(before) else None

    drawn = pack.Drawn(
      keys=np.repeat(keys[:, None], turns, axis=1),
      seeds=[place.seed for place in at],
      given=given,
    )
    ended, _ = host.run_episodes(
      self._world,
      self._engine,
      self._workers,
      attempts,
      self._key,
      drawn=drawn,
    )
    return ended

  def _played(self, before: _Place, ended: pack.Episode) -> Played:
    """Makes a place of what was played."""
    number = len(self._places)
    self._places.append(before._replace(episode=ended))
    new = ended.turns[len(before.episode.turns) :]
    message = tuple(new[0].spoken.ids) if new else ()
    return Played(
      place=number,
      message=message,
      logp=sum(new[0].spoken.logp) if new else 0.0,
      reward=new[0].reward if new else 0.0,
      ended=ended.status != Status.SCHEDULE or not new,
      score=ended.score,
      # A function of the task, its seed and what was said.
      state=np.array([before.task, *message]).tobytes(),
      value=self._value(ended),
      parsed=self._parsed(new),
    )

  def _parsed(self, new: Sequence[pack.TurnData]) -> str | None:
    """Returns what a message says but for its thought; None: malformed."""
    if not new or new[0].invalid:
      return None
    words, prefix = self._world.talk.words, self._world.action_prefix
    _, text = message_spans.split(words, new[0].spoken.ids, prefix)
    return ' '.join(spoken(text).split())

  def _value(self, ended: pack.Episode) -> float | None:
    """Returns the potential that progress adds up to, in [0, 1]."""
    if not valued(self._world):
      return None
    total = sum(turn.info.get(PROGRESS, 0.0) for turn in ended.turns)
    return min(max(total, 0.0), 1.0)

  def _count(self, at: Sequence[_Place], ended: Sequence[pack.Episode]) -> None:
    taken, counts = self._engine.taken(), self.counts
    counts['calls'] += len(at)
    counts['tokens'] += sum(
      len(turn.spoken.ids)
      for place, e in zip(at, ended, strict=True)
      for turn in e.turns[len(place.episode.turns) :]
    )
    # The decoder reads the last token of a context, which is not prefilled.
    counts['read'] += taken['prefilled'] + len(at)
    counts['reused'] += taken['prefix_hits']
    for name in ('env_steps', 'replayed'):
      counts[name] = self._timelines.counts[name]


def valued(world: HostEnvBundle) -> bool:
  """Returns whether environments know what their states are worth."""
  return PROGRESS in world.family.columns


@jax.jit
def _drawn(key: jax.Array, tasks, calls) -> jax.Array:
  """Derives the keys of calls, numbered from 0; -1: a beginning. [n, 2] u32."""
  fold = jax.vmap(jax.random.fold_in)
  each = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.asarray(tasks))
  return jax.random.key_data(fold(each, jnp.asarray(calls) + 1))
