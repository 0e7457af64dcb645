"""Benchmark of collecting beside the updates, in one of three worlds.

  sleeping   an episode sleeps for a log-normal time, on average as long as an
             update takes
  countdown  its calculator is called for real, in a few microseconds
  sokoban    inside jit, on a device of its own beside the learner's; before the
             updates both devices do both

The same run, once with every batch collected before its update, and with
batches collected ahead: seconds of a step, once as many batches are under way
as the bound allows, and the share of the time in which a side is idle. Runs
take turns; ratios are of each round.
"""

import dataclasses
import itertools
import tempfile
import time
from typing import Any, ClassVar, NamedTuple

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


class Timed(NamedTuple):
  """Mean seconds of a run's last steps."""

  step: float
  wait: float  # of the learner for a batch
  collect: float  # of a batch that is collected beside the updates

  def idle(self, depth: int) -> tuple[float, float]:
    """Computes the idle shares of the learner and of `depth` samplers."""
    busy = self.collect / (depth * self.step)
    return self.wait / self.step, max(0.0, 1 - busy)


SMALL = {
  'env.train': 64,
  'env.test': 4,
  'eval.episodes': 4,
  'log.groups': 0,
  'sft.steps': 0,
  'loss': ('ppo', 'entropy'),
}
# Config of a world, what is changed in it, and what a bound above 0 changes.
WORLDS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
  'sleeping': (
    'grpo',
    {
      'rollout.max_turns': 1,
      'rollout.max_message_tokens': 2,
      'host.max_observation_tokens': 16,
    },
    {},
  ),
  'countdown': ('grpo:env=countdown', {}, {}),
  'sokoban': (
    'grpo',
    {'mesh.data': 2},
    {'mesh.data': 1, 'staleness.devices': 1},
  ),
}


def timed(
  size: StalenessBenchSize, bound: int, world: str, mean: float
) -> Timed:
  """Runs one config, and times its last steps.

  Args:
    mean: seconds that an episode sleeps, of the world that sleeps
  """
  config, own, beside = WORLDS[world]
  changes = SMALL | {
    'rollout.batch': size.batch,
    'rollout.slots': size.batch,
    'micro_batch': min(size.batch, 32),
    'model.width': size.width,
    'model.head_dim': size.width // 4,
    'model.mlp': 3 * size.width,
    'steps': size.warm + size.steps,
    'checkpoint.every': size.warm + size.steps + 1,
  }
  changes |= own
  if bound:
    depth = 1 if world == 'sokoban' else bound + 1
    changes |= {'staleness.bound': bound, 'staleness.depth': depth}
    changes |= beside | {'staleness.anchor': 'behaviour'}
  env = Sleeping(mean=mean) if world == 'sleeping' else None
  with (
    tempfile.TemporaryDirectory() as folder,
    Run(
      config, workdir=folder, changes={**changes, 'data': folder}, env=env
    ) as run,
  ):
    times, waits, collects = [], [], []
    for _, state, numbers in run:
      jax.block_until_ready(state.step)
      times.append(time.monotonic())
      if bound:
        waits.append(numbers['time/wait_seconds'])
        collects.append(numbers['time/collect_seconds'])
  n = size.steps
  return Timed(
    (times[-1] - times[size.warm - 1]) / n,
    sum(waits[-n:]) / n,
    sum(collects[-n:]) / n,
  )


def run(size: StalenessBenchSize, world: str) -> None:
  """Prints seconds of a step for each bound, and ratios to no staleness.

  Raises:
    ValueError: the world has a device of its own, and there is one in all.
  """
  bounds = size.bounds
  if world == 'sokoban':
    bounds = tuple(x for x in bounds if x <= 1)  # one batch at a time
    if len(jax.devices()) < 2:
      raise ValueError(
        '--world=sokoban needs two devices, got 1; on a CPU set'
        ' XLA_FLAGS=--xla_force_host_platform_device_count=2'
      )
  mean = 0.0
  if world == 'sleeping':
    mean = timed(size, 0, world, 0.0).step
    print(f'a step without sleeping: {mean:.2f} s', flush=True)
  took: dict[int, list[Timed]] = {bound: [] for bound in bounds}
  for _, bound in itertools.product(range(size.repeats), bounds):
    x = timed(size, bound, world, mean)
    took[bound].append(x)
    text = f'  bound {bound}: {x.step:.3g} s a step'
    if bound:
      learner, samplers = x.idle(1 if world == 'sokoban' else bound + 1)
      text += f'; idle: learner {learner:.0%}, samplers {samplers:.0%}'
    print(text, flush=True)
  base = [x.step for x in took[bounds[0]]]
  for bound in bounds[1:]:
    ratio = timing.ratio(base, [x.step for x in took[bound]])
    print(
      f'bound {bound}: {ratio.median:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]'
      ' times the'
      f' steps per second of bound {bounds[0]}'
    )
