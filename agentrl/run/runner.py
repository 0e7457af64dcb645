"""Runner: runs one config, or several seeds of it as one program."""

import contextlib
import os
from collections.abc import (
  Callable,
  Iterator,
  Mapping,
  Sequence,
)
from typing import NamedTuple

import jax
import numpy as np
from absl import logging

from agentrl import evaluate
from agentrl.configs import stages as stage_list
from agentrl.configs.config import Config
from agentrl.configs.stages import StagePlan
from agentrl.learner import algorithm
from agentrl.log import metrics, progress, run_summary
from agentrl.log.sample import TrajectoryLogger
from agentrl.rollout.keys import Stream, stream_key
from agentrl.rollout.record import Record
from agentrl.run import (
  build,
  describe,
  evaluation,
  placement,
  seed_axis,
  selection,
  training,
  weights,
)
from agentrl.run import workdir as workdir_lib
from agentrl.run.check import (
  fields,
  recall_checks,
  stage_checks,
  staleness_checks,
  validate,
)
from agentrl.run.experiment import Experiment
from agentrl.run.outputs import RunOutputs
from agentrl.run.play import jit_env, learned_reward, recalled, sampler
from agentrl.run.play.base import Beside, EnvSampler
from agentrl.run.stage import seed_stages
from agentrl.run.stage import stages as stages_lib
from agentrl.run.stage.base import Stage
from agentrl.runtime import checkpoint, distributed, storage
from agentrl.runtime import lock as lock_lib
from agentrl.runtime.preemption import Interrupt


def run(c, workdir: str, *, stages: tuple[str, ...] = ()) -> str:
  """Runs the config in workdir, from wherever it stands; returns a summary.

  Args:
    stages: names of stages, in place of c.stages
  """
  return run_seeds([c], [workdir], stages=stages)[0]


def run_seeds(
  configs: Sequence, workdirs: Sequence[str], *, stages: tuple[str, ...] = ()
) -> list[str]:
  """Runs configs that differ in their seed as one program, each in its workdir.

  Returns: their summaries
  Raises ValueError for configs that cannot go together.
  """
  with open_run(configs, workdirs, stages=stages) as (experiments, _, steps):
    for _ in steps:
      pass
  if not distributed.first():
    return [''] * len(configs)
  return [finish(s, w) for s, w in zip(experiments, workdirs, strict=True)]


@contextlib.contextmanager
def open_run(
  configs: Sequence, workdirs: Sequence[str], *, stages: tuple[str, ...] = ()
):
  """Opens what runs need; gives their experiments, state and steps to come.

  The steps are an iterator of (kind of stage, step, state, metrics), see
  `training.train_stages`. At the end everything is written and the folders are
  free again.

  Raises ValueError for configs that cannot go together.
  """
  configs, plans = checked(configs, workdirs, stages)
  with contextlib.ExitStack() as stack:
    reporter = stack.enter_context(
      progress.Progress(active=distributed.first())
    )
    reporter.say(describe.opening(configs, workdirs, plans))
    reporter.begin('loading the tasks, or making them where there are none')
    axis = seed_axis.over_devices(len(configs))
    experiments = build.experiments(configs, in_place=not axis.vmapped)
    s = experiments[0]
    built = build.stage_experiments(experiments, plans)
    stages_lib.check_demos(plans, built)
    check_runs_named([*configs, *(x.config for x in plans)])
    reporter.say(f'policy: {describe.model(s)}')
    reporter.begin('making the parameters')
    interrupt = stack.enter_context(Interrupt())
    stack.enter_context(placement.on_mesh(configs[0]))
    players = sampler.open_samplers(stack, built, interrupt, workdirs[0])
    locks = _taken(stack, configs, workdirs)
    trained = {x.name: built[x.name] for x in plans if x.kind == 'rl'}
    beside = sampler.open_beside(
      stack, s.config, trained, interrupt, workdirs[0]
    )
    names = stages or tuple(s.config.stages)
    plan = _make_plan(
      axis, experiments, workdirs, names, built, players, beside
    )
    keep = s.config.checkpoint.keep
    checkpoints = _open_checkpoints(stack, workdirs, locks, keep=keep)
    state, resumed, spent = weights.restore_or_init(
      axis,
      experiments,
      checkpoints,
      [[*of] for of in zip(*built.values(), strict=True)],
    )
    if s.config.model.path:
      logging.info('%s', describe.computing(s))
    outputs = RunOutputs(
      axis,
      experiments,
      workdirs,
      checkpoints,
      resumed,
      locks,
      sampler.verdicts(players),
      kinds={x.name: x.kind for x in plan},
    )
    logger = TrajectoryLogger(
      outputs.log, outputs.flush, every=s.config.log.every
    )

    stopping = _in_every_process(interrupt, *locks)
    steps = training.train_stages(
      plan,
      state,
      outputs,
      logger,
      evaluate=stages_lib.evaluations(axis, plan, logger, stopping),
      due=stages_lib.due(plan),
      save_every=s.config.checkpoint.every,
      stopping=stopping,
      ended=[x.end for x in beside.values()],
      spent=spent,
      reporter=reporter,
    )
    with contextlib.closing(steps):
      yield experiments, state, steps
    outputs.close()
    for check in locks:
      check()


def _taken(
  stack: contextlib.ExitStack, configs: Sequence, workdirs: Sequence[str]
) -> list[Callable[[], None]]:
  """Locks the folders of runs, before anything is written there.

  Returns: for each what raises once its lock is lost
  Raises: see `locked`; ValueError for a folder of another config, which who
    held the lock before may have written.
  """
  locks = [stack.enter_context(locked(w)) for w in workdirs]
  for c, w in zip(configs, workdirs, strict=True):
    workdir_lib.same_config(c, w)
  return locks


def _in_every_process(*checks: Callable[[], None]) -> Callable[[], None]:
  """Returns what raises in all processes where a check raises in one."""

  def check_all() -> None:
    distributed.allgather_objects(lambda: [check() for check in checks])

  return check_all


def _make_plan(
  axis: seed_axis.SeedAxis,
  experiments: Sequence[Experiment],
  workdirs: Sequence[str],
  names: Sequence[str],
  built: Mapping[str, Sequence[Experiment]],
  players: Mapping[str, EnvSampler],
  beside: Mapping[str, Beside],
) -> list[Stage]:
  """Makes the stages of every seed, batched over seeds.

  Args:
    built: experiments of every stage, one per seed, by its name
    players: samplers of the stages
    beside: those that collect beside the updates
  """
  made = []
  for i, (x, w) in enumerate(zip(experiments, workdirs, strict=True)):
    mine = {name: (of[i], players[name]) for name, of in built.items()}
    made.append(stages_lib.make_stages(x, names, mine, w, beside))
  return [seed_stages.batch_stages(axis, x) for x in zip(*made, strict=True)]


def _open_checkpoints(
  stack: contextlib.ExitStack,
  workdirs: Sequence[str],
  locks: Sequence[Callable[[], None]],
  *,
  keep: int,
) -> list[checkpoint.Checkpoints]:
  """Opens the checkpoints of every workdir; the stack closes them."""
  out = [
    checkpoint.Checkpoints(os.path.join(w, 'checkpoints'), keep=keep, check=x)
    for w, x in zip(workdirs, locks, strict=True)
  ]
  for kept in out:  # a state that is being saved is whole at the end
    stack.callback(kept.close)
  return out


def checked(
  configs: Sequence, workdirs: Sequence[str], stages: tuple[str, ...]
) -> tuple[list[Config], list[StagePlan]]:
  """Returns the Configs and the plans of their stages; builds nothing.

  Raises:
    ValueError: something cannot run, in one sentence.
  """
  c = validate.config(configs[0])
  configs = [c, *map(fields.read, configs[1:])]
  seed_axis.check(configs)
  for each, w in zip(configs, workdirs, strict=True):
    workdir_lib.same_config(each, w)
    staleness_checks.folder(c, w)
  validate.log(c)
  plans = stage_list.plans(c, stages)
  if len(configs) > 1:
    staleness_checks.together([x.config for x in plans])
    recall_checks.together([x.config for x in plans])
  if stages and c.stage:
    raise ValueError(
      f'this config has stages of its own, c.stages={tuple(c.stages)};'
      ' train all of them by the command train, which goes on where it stopped'
    )
  stage_checks.found(plans)
  stage_checks.demonstrated(plans)
  stage_checks.prefixed(plans)
  stage_checks.roles(plans)
  return configs, plans


def check_runs_named(configs: Sequence) -> None:
  """Raises ValueError for runs that configs begin with, of another model."""
  for c in {id(c): c for c in configs}.values():
    fields = ['init'] if c.init else []
    fields += [f'role.{name}.run' for name, r in c.role.items() if r.run]
    for field in fields:
      workdir_lib.same_model(c, field)


@contextlib.contextmanager
def locked(workdir: str):
  """Holds the workdir's lock in process 0; gives what raises once it is lost.

  Raises: lock.TakenError in process 0 where another training holds it, and in
    the other processes that this one failed.
  """
  with contextlib.ExitStack() as stack:

    def take():
      if distributed.first():
        return stack.enter_context(lock_lib.Lock(workdir)).check
      return lambda: None

    mine = []
    try:
      distributed.allgather_objects(lambda: mine.append(take()))
    except RuntimeError as error:
      raise lock_lib.TakenError(str(error)) from error
    yield mine[0]


def finish(s: Experiment, workdir: str) -> str:
  """Writes the learning curve and the summary; returns the summary."""
  folder = storage.path(workdir)
  path, curve = folder / metrics.FILE, folder / 'curve.png'
  metrics.repair(path)  # nobody has checked it since the run began
  rows = metrics.read(path)
  run_summary.learning_curve(rows, curve, title=describe.title(s))
  text = run_summary.summary(rows, describe.header(s, workdir))
  storage.write(folder / 'summary.txt', text + '\n')
  return text


class OpenedRun(NamedTuple):
  """A run whose newest policy plays."""

  experiment: Experiment
  step: int
  tasks: np.ndarray  # to play: the run's held-out ones, or those of a file
  play: Callable[..., Record]  # (attempts, key)
  score: selection.Score | None  # by what the run has learned of reward
  check: Callable[[], object]  # raises where nothing was played


@contextlib.contextmanager
def opened_run(
  workdir: str, levels: str | None = None, limit: int | None = None
) -> Iterator[OpenedRun]:
  """Opens a run to play with its newest policy; see `evaluate_run`."""
  c = whole = workdir_lib.read_config(workdir)
  if plans := stage_list.plans(c):
    c = plans[-1].config
  s = build.experiment(jit_env.for_evaluation(c, levels, limit))
  first = 0 if levels else len(s.train)
  with (
    placement.on_mesh(c),
    sampler.open_sampler(s, workdir=workdir) as playing,
  ):
    step, state = weights.load(whole, s.shape, workdir)
    playing.update_service_params(state.params)
    params = algorithm.played_params(s.algorithm, state.params)

    def play(attempts, key):
      given = recalled.recalled(s, state.memory, attempts, recalled.EVALUATION)
      return playing.play(params, given, key)

    yield OpenedRun(
      s,
      step,
      np.arange(first, len(s.train) + len(s.test)),
      play,
      learned_reward.scorer(s, state),
      playing.taken,
    )


def evaluate_run(
  workdir: str,
  *,
  episodes: int = 1000,
  temperature: float = 1.0,
  levels: str | None = None,
  limit: int | None = None,
  seed: int = 0,
  logged: int = 8,
  attempts: int = 1,
) -> str:
  """Plays with a run's newest policy; returns what to print.

  Args:
    attempts: at each task, with success by rule of selection among them
    levels: another Sokoban level file, all of whose levels are played; else
      the run's own held-out tasks
    limit: turns; else as many as in training
    logged: trajectories to log
  """
  selection.check(episodes, attempts)
  with opened_run(workdir, levels, limit) as run:
    s, tasks = run.experiment, run.tasks
    watch = selection.Watch(episodes, len(tasks), attempts)
    numbers, last = evaluate.evaluate(
      watch.of(run.play, run.score),
      watch.tasks(tasks),
      episodes=watch.episodes,
      batch=s.config.rollout.batch,
      limit=s.plan.turns,
      temperature=temperature,
      key=stream_key(jax.random.key(seed), Stream.EVAL),
    )
    run.check()
    name = 'held_out'
    if levels:
      name = os.path.splitext(os.path.basename(levels))[0]
    path = os.path.join(workdir, 'evaluations', f'{run.step:06d}_{name}')
    evaluation.write(s, path, run.step, last, logged)
  head = f'{describe.title(s)}, step {run.step}, temperature {temperature:g}'
  return evaluation.report(head, s.plan.turns, numbers, path) + watch.table()
