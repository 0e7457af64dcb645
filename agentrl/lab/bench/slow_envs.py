"""Benchmark of slow environments: asynchronous rollouts against lock-step.

The same trajectories, by the same slot engine, with the same tool latencies,
drawn from a log-normal distribution for each turn: once as host rollouts are
played, once with all trajectories of a batch waiting for the slowest in every
turn. The two are timed in turn; the ratio is that of trajectories per second.
"""

import dataclasses
import time

import jax
import numpy as np

from agentrl import mesh
from agentrl.env.base import Step
from agentrl.lab.bench import sampling, timing
from agentrl.lab.bench.sizes import SlowEnvBenchSize
from agentrl.nn import transformer
from agentrl.rollout import bundle, host, limits
from agentrl.rollout.engine.engine import Engine, Sizes
from agentrl.rollout.workers.pool import env_workers
from agentrl.task.base import make_attempts
from agentrl.text import chat_format, tokenizer

_TWO_PERCENT = 2.0537  # the standard normal exceeds it with probability 0.02


def waits(count: int, turns: int, median: float, long: float) -> np.ndarray:
  """Draws seconds of each call: [count, turns], log-normal, always the same."""
  sigma = np.log(long / median) / _TWO_PERCENT
  draws = np.random.default_rng(0).normal(size=(count, turns))
  return median * np.exp(sigma * draws)


@dataclasses.dataclass(frozen=True)
class Slow:
  """Environment whose calls sleep and whose observations are short."""

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
    return Step('look\n')

  def close(self):
    pass


class Lockstep:
  """Generator that decodes once all live conversations have a request."""

  def __init__(self, engine: Engine, count: int):
    self._engine, self._left, self._asked = engine, count, []

  @property
  def busy(self) -> bool:
    return self._engine.busy or self._complete

  @property
  def _complete(self) -> bool:
    return bool(self._asked) and len(self._asked) == self._left

  def submit(self, *request) -> None:
    self._asked.append(request)

  def dispatch(self) -> None:
    if self._complete:
      for request in self._asked:
        self._engine.submit(*request)
      self._asked = []
    self._engine.dispatch()

  def collect(self):
    return self._engine.collect()

  def cancel(self, sequence: int) -> None:
    self._left -= 1
    self._engine.cancel(sequence)


class Bench:
  """The same trajectories, sampled in both ways."""

  def __init__(self, seconds: np.ndarray, size: SlowEnvBenchSize):
    self._size = size
    words, (_, turns) = tokenizer.Embedded(), seconds.shape
    self._limits = limits.EpisodeLimits(
      turns=turns, message=16, observation=8, opening=0, context=24 * turns
    )
    self._talk = chat_format.bare(words)
    shape = dataclasses.replace(
      sampling.TINY.shape, vocab=words.vocab_size, width=64, heads=4, kv_heads=4
    )
    sizes = Sizes(slots=size.slots, capacity=self._limits.context)
    self._engine = Engine(shape, sizes, eot=words.eot)
    params = mesh.init(transformer.specs(shape), jax.random.key(0))
    self._engine.update_weights(params, 0)
    self._play(np.zeros_like(seconds), self._size.sessions, self._engine)
    self._seconds = seconds

  def free(self) -> None:
    self._play(self._seconds, self._size.sessions, self._engine)

  def lockstep(self) -> None:
    slots = self._size.slots
    for at in range(0, len(self._seconds), slots):
      some = self._seconds[at : at + slots]
      self._play(some, slots, Lockstep(self._engine, len(some)))

  def _play(self, seconds, sessions: int, generator) -> None:
    tasks = [{'waits': row.tolist()} for row in seconds]
    stage = bundle.HostEnvBundle(Slow(), tasks, self._talk, self._limits)
    index = np.arange(len(tasks))
    attempts = make_attempts(index, 1, self._limits.turns, 1.0)
    with env_workers(Slow(), min(sessions, len(tasks))) as them:
      host.run_episodes(stage, generator, them, attempts, jax.random.key(0))


def run(size: SlowEnvBenchSize) -> None:
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
  took = timing.interleaved(ways, size.repeats, warm=0)
  for name, times in took.items():
    each = ' '.join(f'{x:.1f}' for x in times)
    rate = size.count / np.median(times)
    print(f'  {name:<9} {rate:.2f} a second  ({each} s)')
  x = timing.ratio(took['lockstep'], took['free'])
  print(f'  ratio {x.median:.2f} [{x.low:.2f}, {x.high:.2f}]')
