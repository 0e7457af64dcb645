"""A toy of a run: the loop, the lock and every writer are the real ones.

Its state is one number a step, which no other way of getting there makes.
"""

import collections
import contextlib
import dataclasses
import pathlib
import types
from collections.abc import Callable

import jax.numpy as jnp

from agentrl.configs import grpo
from agentrl.log import metrics, trajectories
from agentrl.log.sample import TrajectoryLogger
from agentrl.run import runner, training
from agentrl.run import workdir as workdir_lib
from agentrl.runtime import checkpoint
from agentrl.types import TrainState
from tests import states

STEPS, EVERY = 10, 3


def fresh() -> TrainState:
  return states.state(params={'policy': jnp.float32(1)})


def update(alg, state, batch):
  x = state.params['policy'] * 3.7 % 1 + state.step
  new = state.replace(step=state.step + 1, params={'policy': x})
  return new, {'x': x}, {'x': x}


def trajectory(step: int, x: float) -> dict:
  return {
    'phase': 'rl',
    'step': step,
    'task': 7,
    'group': 3,
    'member': 25,
    'status': 'turn_limit',
    'outcome': 0.0,
    'reward': x,
    'turns': [],
  }


@dataclasses.dataclass
class Stage:
  at: Callable[[int], None]
  name: str = 'rl'
  kind: str = 'rl'
  start: int = 0
  end: int = STEPS
  algorithm: None = None
  collectors: tuple = ()
  in_jobs: bool = False
  experiment: object = dataclasses.field(
    default_factory=lambda: types.SimpleNamespace(
      config=grpo.get_config('tiny')
    )
  )
  update = staticmethod(update)

  def open(self, step):
    pass

  def begin(self, state):
    return state

  def task(self, state, step):
    return step

  def collect(self, state, attempts, step):
    self.at(step)
    return step, {}


class Outputs:
  """outputs.RunOutputs, but for the trajectories' words."""

  def __init__(self, workdir, resumed, checkpoints, check):
    self._writer = metrics.MetricsWriter(
      workdir, resume_after=resumed, header={'a': 1}, check=check
    )
    self._log = trajectories.TrajectoryWriter(
      workdir, resume_after=resumed, check=check
    )
    self._checkpoints = checkpoints
    self.write, self.evaluated = self._writer.write, self._writer.evaluated

  def log(self, step, phase, what):
    self._log.write(trajectory(step, float(what['x'])))

  def save(self, step, state, meta):
    self._writer.flush()
    self._log.flush()
    self._checkpoints.save(step, state, meta)

  def close(self):
    for x in (self._writer, self._checkpoints, self._log):
      x.close()


def run(workdir: pathlib.Path, at=lambda step: None) -> None:
  """As runner.run does it; at: called with the steps done, before the next."""
  c = grpo.get_config('tiny')
  with contextlib.ExitStack() as stack:
    check = stack.enter_context(runner.locked(str(workdir)))
    workdir_lib.same_config(c, str(workdir))
    checkpoints = checkpoint.Checkpoints(workdir / 'checkpoints', check=check)
    stack.callback(checkpoints.close)
    found = checkpoints.latest(fresh())
    resumed, state = found[:2] if found else (None, fresh())
    workdir_lib.keep_config(c, str(workdir))
    outputs = Outputs(workdir, resumed, checkpoints, check)
    collections.deque(
      training.train_stages(
        [Stage(at)],
        state,
        outputs,
        TrajectoryLogger(outputs.log, lambda: None),
        evaluate=lambda *_: {'eval/x': 1.0},
        due=lambda s: s == 4,
        save_every=EVERY,
      ),
      maxlen=0,
    )
    outputs.close()
    metrics.repair(workdir / metrics.FILE)


def rows(workdir) -> list[dict]:
  found = metrics.read(workdir / metrics.FILE)
  return [{k: v for k, v in r.items() if k != 'time/seconds'} for r in found]


def state(workdir) -> tuple[int, float]:
  checkpoints = checkpoint.Checkpoints(workdir / 'checkpoints')
  step, found, _ = checkpoints.latest(fresh())
  return step, float(found.params['policy'])
