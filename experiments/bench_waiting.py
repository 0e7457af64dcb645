"""Worlds that are slow now and then: nobody waits, against lock-step.

  python -m experiments.bench_waiting

The same trajectories, by the same slot engine, with the same tool latencies,
drawn from a log-normal distribution for each turn: once as host rollouts are
played, once with all trajectories of a batch waiting for the slowest in every
turn. The two are timed in turn; the ratio is that of trajectories per second.
"""

import dataclasses
import time

import jax
import numpy as np
from absl import flags

from agentrl import mesh
from agentrl.env.host import Reply
from agentrl.nn import transformer
from agentrl.rollout import host
from agentrl.rollout.engine import Engine, Sizes
from agentrl.rollout.rooms import rooms
from agentrl.task.fixed import attempts as make_attempts
from agentrl.text import talk, tokenizer
from experiments import cli

_COUNT = flags.DEFINE_integer('count', 64, 'Trajectories.', lower_bound=1)
_SLOTS = flags.DEFINE_integer('slots', 16, 'Of the engine.', lower_bound=1)
_SESSIONS = flags.DEFINE_integer('sessions', 32, 'Under way.', lower_bound=1)
_TURNS = flags.DEFINE_integer('turns', 4, 'Of each.', lower_bound=1)
_MEDIAN = flags.DEFINE_float('median', 0.3, 'Seconds of a tool call.')
_LONG = flags.DEFINE_float('long', 5.0, 'Seconds that 2% of calls exceed.')
_REPEATS = flags.DEFINE_integer('repeats', 3, 'Of each.', lower_bound=1)

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

  def __init__(self, seconds: np.ndarray):
    words, (_, turns) = tokenizer.Embedded(), seconds.shape
    self._limits = host.Limits(
      turns=turns, message=16, heard=8, opening=0, context=24 * turns
    )
    self._talk = talk.bare(words)
    shape = transformer.Shape(
      vocab=words.vocab_size, width=64, layers=2, heads=4, kv_heads=4,
      head_dim=16, mlp=192,
    )  # fmt: skip
    sizes = Sizes(slots=_SLOTS.value, capacity=self._limits.context)
    self._engine = Engine(shape, sizes, eot=words.eot)
    self._engine.swap(mesh.init(transformer.specs(shape), jax.random.key(0)), 0)
    self._play(np.zeros_like(seconds), _SESSIONS.value, self._engine)
    self._seconds = seconds

  def free(self) -> None:
    self._play(self._seconds, _SESSIONS.value, self._engine)

  def lockstep(self) -> None:
    slots = _SLOTS.value
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


def main() -> None:
  count = _COUNT.value
  seconds = waits(count, _TURNS.value, _MEDIAN.value, _LONG.value)
  print(
    f'{count} trajectories of {_TURNS.value} turns, {_SLOTS.value} slots,'
    f' {_SESSIONS.value} under way; a call takes {np.median(seconds):.2f} s in'
    f' the median, {seconds.mean():.2f} s on average, {seconds.max():.1f} s at'
    ' most'
  )
  bench = Bench(seconds)
  ways = {'free': bench.free, 'lockstep': bench.lockstep}
  took = {name: [] for name in ways}
  for _ in range(_REPEATS.value):
    for name, play in ways.items():
      start = time.monotonic()
      play()
      took[name].append(time.monotonic() - start)
  for name, times in took.items():
    told = ' '.join(f'{x:.1f}' for x in times)
    print(f'  {name:<9} {count / np.median(times):.2f} a second  ({told} s)')
  ratios = np.array(took['lockstep']) / np.array(took['free'])
  print(
    f'  ratio {np.median(ratios):.2f} [{ratios.min():.2f}, {ratios.max():.2f}]'
  )


if __name__ == '__main__':
  cli.run(main)
