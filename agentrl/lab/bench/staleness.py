"""Benchmark of collecting beside the updates, in environments that sleep.

An episode sleeps for a log-normal time, on average as long as an update takes.
The same run, once with every batch collected before its update, and with
batches collected ahead: seconds of a step, once as many batches are under way
as the bound allows. Runs take turns; ratios are of each round.
"""

import dataclasses
import itertools
import tempfile
import time
from typing import ClassVar

import jax
import numpy as np

from agentrl.env import task_sampling
from agentrl.env.base import Step
from agentrl.lab.bench import timing
from agentrl.lab.bench.sizes import StalenessBenchSize
from agentrl.run.api import Run


@dataclasses.dataclass(frozen=True)
class Sleeping:
  """Tasks that take a log-normal time, whatever is answered."""

  mean: float = 1.0  # seconds of an episode
  sigma: float = 0.5  # of its logarithm
  columns: ClassVar[tuple[str, ...]] = ()
  system: ClassVar[str] = ''
  worker: ClassVar[str] = 'thread'

  def name(self) -> str:
    return task_sampling.name('sleeping', self)

  def tasks(self, split: str, count: int, seed: int):
    def draw(rng):
      return int(rng.integers(1_000_000))

    def solved(number):
      return {'number': number}, [str(number % 10)]

    return task_sampling.drawn(draw, solved, split, count, seed)

  def env(self) -> 'SleepingEnv':
    return SleepingEnv(self)


class SleepingEnv:
  """One question, and a wait before it is scored."""

  def __init__(self, family: Sleeping):
    self._family = family

  def reset(self, task, seed: int) -> str:
    self._task, self._rng = task, np.random.default_rng(seed)
    return f'{task["number"]}?'

  def step(self, message: str) -> Step:
    mean, sigma = self._family.mean, self._family.sigma
    draw = np.exp(sigma * self._rng.normal() - sigma**2 / 2)
    time.sleep(mean * draw)
    right = float(message == str(self._task['number'] % 10))
    return Step('', reward=right, done=True, score=right)

  def close(self) -> None:
    pass


def seconds_of_step(size: StalenessBenchSize, bound: int, mean: float) -> float:
  """Runs one config; the mean of its last steps, in seconds."""
  changes = {
    'rollout.batch': size.batch,
    'rollout.slots': size.batch,
    'rollout.max_turns': 1,
    'rollout.max_message_tokens': 2,
    'host.max_observation_tokens': 16,
    'model.width': size.width,
    'model.head_dim': size.width // 4,
    'model.mlp': 3 * size.width,
    'env.train': 64,
    'env.test': 4,
    'eval.episodes': 4,
    'log.groups': 0,
    'sft.steps': 0,
    'steps': size.warm + size.steps,
    'checkpoint.every': size.warm + size.steps + 1,
    'loss': ('ppo', 'entropy'),
    'staleness.bound': bound,
    'staleness.depth': bound + 1,
  }
  if bound:
    changes['staleness.anchor'] = 'behaviour'
  with (
    tempfile.TemporaryDirectory() as folder,
    Run(
      'grpo',
      workdir=folder,
      changes={**changes, 'data': folder},
      env=Sleeping(mean=mean),
    ) as run,
  ):
    times = []
    for _, state, _ in run:
      jax.block_until_ready(state.step)
      times.append(time.monotonic())
  return (times[-1] - times[size.warm - 1]) / size.steps


def run(size: StalenessBenchSize) -> None:
  """Prints seconds of a step for each bound, and ratios to no staleness."""
  update = seconds_of_step(size, 0, 0.0)
  print(f'a step without sleeping: {update:.2f} s', flush=True)
  took: dict[int, list[float]] = {bound: [] for bound in size.bounds}
  for _, bound in itertools.product(range(size.repeats), size.bounds):
    took[bound].append(seconds_of_step(size, bound, update))
    print(f'  bound {bound}: {took[bound][-1]:.2f} s a step', flush=True)
  for bound in size.bounds[1:]:
    x = timing.ratio(took[size.bounds[0]], took[bound])
    print(
      f'bound {bound}: {x.median:.2f} [{x.low:.2f}, {x.high:.2f}] times the'
      f' steps per second of bound {size.bounds[0]}'
    )
