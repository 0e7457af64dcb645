"""Worlds that are slow now and then: nobody waits, against lock-step.

The same trajectories, by the same slot engine, with the same tool latencies,
drawn from a log-normal distribution for each turn: once as host rollouts are
played, once with all trajectories of a batch waiting for the slowest in every
turn. The two are timed in turn; the ratio is that of trajectories per second.
"""

import dataclasses
import time
from typing import NamedTuple

import jax
import numpy as np

from agentrl import mesh
from agentrl.env.base import Reply
from agentrl.nn import transformer
from agentrl.rollout import host
from agentrl.rollout.engine.engine import Engine, Sizes
from agentrl.rollout.workers.pool import rooms
from agentrl.task.fixed import attempts as make_attempts
from agentrl.text import chat_format, tokenizer


class Size(NamedTuple):
  """What is played, and how long its calls take."""

  count: int = 64  # trajectories
  slots: int = 16  # of the engine
  sessions: int = 32  # under way
  turns: int = 4  # of each
  median: float = 0.3  # seconds of a tool call
  long: float = 5.0  # seconds that 2% of calls exceed
  repeats: int = 3


_TWO_PERCENT = 2.0537  # the standard normal exceeds it with probability 0.02


def waits(count: int, turns: int, median: float, long: float) -> np.ndarray:
  """Seconds of each call: [count, turns], log-normal, always the same ones."""
  sigma = np.log(long / median) / _TWO_PERCENT
  draws = np.random.default_rng(0).normal(size=(count, turns))
  return median * np.exp(sigma * draws)


@dataclasses.dataclass(frozen=True)
class Slow:
  """A world that takes its time and says little."""

  columns = ()
  system, place = '', 'thread'

  def env(self):
    return SlowEnv()


class SlowEnv:
  def reset(self, task, seed):
    self.waits = list(task['waits'])
    return 'look\n'

  def step(self, message):
    time.sleep(self.waits.pop(0))
    return Reply('look\n')

  def close(self):
    pass


class Lockstep:
  """A mouth that speaks when all who are there have asked."""

  def __init__(self, engine: Engine, count: int):
    self._engine, self._left, self._asked = engine, count, []

  @property
  def busy(self) -> bool:
    return self._engine.busy or self._complete

  @property
  def _complete(self) -> bool:
    return bool(self._asked) and len(self._asked) == self._left

  def ask(self, *asked) -> None:
    self._asked.append(asked)

  def launch(self) -> None:
    if self._complete:
      for asked in self._asked:
        self._engine.ask(*asked)
      self._asked = []
    self._engine.launch()

  def land(self):
    return self._engine.land()

  def drop(self, line: int) -> None:
    self._left -= 1
    self._engine.drop(line)


class Bench:
  """The same trajectories, to be played in two ways."""

  def __init__(self, seconds: np.ndarray, size: Size):
    self._size = size
    words, (_, turns) = tokenizer.Embedded(), seconds.shape
    self._limits = host.Limits(
      turns=turns, message=16, heard=8, opening=0, context=24 * turns
    )
    self._talk = chat_format.bare(words)
    shape = transformer.Shape(
      vocab=words.vocab_size, width=64, layers=2, heads=4, kv_heads=4,
      head_dim=16, mlp=192,
    )  # fmt: skip
    sizes = Sizes(slots=size.slots, capacity=self._limits.context)
    self._engine = Engine(shape, sizes, eot=words.eot)
    self._engine.swap(mesh.init(transformer.specs(shape), jax.random.key(0)), 0)
    self._play(np.zeros_like(seconds), self._size.sessions, self._engine)
    self._seconds = seconds

  def free(self) -> None:
    self._play(self._seconds, self._size.sessions, self._engine)

  def lockstep(self) -> None:
    slots = self._size.slots
    for at in range(0, len(self._seconds), slots):
      some = self._seconds[at : at + slots]
      self._play(some, slots, Lockstep(self._engine, len(some)))

  def _play(self, seconds, sessions: int, mouth) -> None:
    tasks = [{'waits': row.tolist()} for row in seconds]
    stage = host.Stage(Slow(), tasks, self._talk, self._limits)
    index = np.arange(len(tasks))
    attempts = make_attempts(index, 1, self._limits.turns, 1.0)
    with rooms(Slow(), min(sessions, len(tasks))) as them:
      host.sessions(stage, mouth, them, attempts, jax.random.key(0))


def run(size: Size) -> None:
  """Prints both rates, and their ratio."""
  seconds = waits(size.count, size.turns, size.median, size.long)
  print(
    f'{size.count} trajectories of {size.turns} turns, {size.slots} slots,'
    f' {size.sessions} under way; a call takes {np.median(seconds):.2f} s in'
    f' the median, {seconds.mean():.2f} s on average, {seconds.max():.1f} s at'
    ' most'
  )
  bench = Bench(seconds, size)
  ways = {'free': bench.free, 'lockstep': bench.lockstep}
  took = {name: [] for name in ways}
  for _ in range(size.repeats):
    for name, play in ways.items():
      start = time.monotonic()
      play()
      took[name].append(time.monotonic() - start)
  for name, times in took.items():
    each = ' '.join(f'{x:.1f}' for x in times)
    print(
      f'  {name:<9} {size.count / np.median(times):.2f} a second  ({each} s)'
    )
  ratios = np.array(took['lockstep']) / np.array(took['free'])
  print(
    f'  ratio {np.median(ratios):.2f} [{ratios.min():.2f}, {ratios.max():.2f}]'
  )
