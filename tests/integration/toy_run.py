"""A toy of a run: the loop, the lock and every writer are the real ones.

Its state is one number a step, which no other way of getting there makes.
"""

import pathlib

import jax
import jax.numpy as jnp

from agentrl import checkpoint, loop
from agentrl.configs import grpo
from agentrl.log import metrics, trajectories
from agentrl.log.sample import Keeper
from agentrl.run import runner
from agentrl.run import workdir as workdir_lib
from agentrl.types import TrainState

STEPS, EVERY = 10, 3


def fresh() -> TrainState:
  none: dict = {}
  return TrainState(
    step=jnp.int32(0), params={'policy': jnp.float32(1)}, opt=none,
    signal=none, memory=none, carry=none, key=jax.random.key(0),
  )  # fmt: skip


def update(state, batch):
  x = state.params['policy'] * 3.7 % 1 + state.step
  new = state.replace(step=state.step + 1, params={'policy': x})
  return new, {'x': x}, {'x': x}


def trajectory(step: int, x: float) -> dict:
  return {
    'phase': 'rl', 'step': step, 'task': 7, 'group': 3, 'member': 25,
    'status': 'turn_limit', 'outcome': 0.0, 'reward': x, 'turns': [],
  }  # fmt: skip


def run(workdir: pathlib.Path, at=lambda step: None) -> None:
  """As runner.run does it; at: called with the steps done, before the next."""
  c = grpo.get_config('tiny')
  with runner.locked(str(workdir)) as check:
    workdir_lib.same_config(c, str(workdir))
    checkpoints = checkpoint.Checkpoints(workdir / 'checkpoints', check=check)
    found = checkpoints.latest(fresh())
    resumed, state = found[:2] if found else (None, fresh())
    workdir_lib.keep_config(c, str(workdir))
    writer = metrics.Writer(
      workdir, resume_after=resumed, header={'a': 1}, check=check
    )
    log = trajectories.Writer(workdir, resume_after=resumed, check=check)

    def put(step, phase, what):
      log.write(trajectory(step, float(what['x'])))

    def sample(state, tasks, step):
      at(step)
      return step

    stage = loop.Stage(
      'rl', 0, STEPS, lambda s: s, lambda step: step, sample,
      lambda batch: {}, update,
    )  # fmt: skip
    watch = loop.Watch(lambda *_: {'eval/x': 1.0}, lambda s: s == 4, EVERY)
    progress = metrics.Progress(STEPS, active=False)
    keeper = Keeper(put, log.flush)
    runner.go([stage], state, watch, writer, keeper, checkpoints, progress, 0)
    log.close()
    metrics.repair(workdir / metrics.FILE)


def rows(workdir) -> list[dict]:
  found = metrics.read(workdir / metrics.FILE)
  return [{k: v for k, v in r.items() if k != 'time/seconds'} for r in found]


def state(workdir) -> tuple[int, float]:
  step, found, _ = checkpoint.Checkpoints(workdir / 'checkpoints').latest(
    fresh()
  )
  return step, float(found.params['policy'])
