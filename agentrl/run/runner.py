"""Runner: runs one config, or several seeds of it as one program."""

import contextlib
import functools
import os
import time
from collections.abc import Callable, Iterator, Sequence

import jax
import numpy as np
from absl import logging

from agentrl import evaluate, hooks, loop
from agentrl.configs import stages as stage_list
from agentrl.learner import algorithm, update
from agentrl.log import metrics, no_gradient, progress, run_summary
from agentrl.log.sample import TrajectoryLogger
from agentrl.rollout.keys import Stream, stream_key
from agentrl.run import (
  build,
  describe,
  evaluation,
  placement,
  seed_axis,
  weights,
)
from agentrl.run import workdir as workdir_lib
from agentrl.run.check import stage_checks, validate
from agentrl.run.experiment import Experiment
from agentrl.run.outputs import RunOutputs
from agentrl.run.play import jit_env, sampler
from agentrl.run.stage import seed_stages, stage_state
from agentrl.run.stage import stages as stages_lib
from agentrl.runtime import checkpoint, distributed, storage
from agentrl.runtime import lock as lock_lib
from agentrl.runtime.preemption import Interrupt
from agentrl.types import Metrics, TrainState


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

  The steps are an iterator of (stage, step, state, metrics), see `run_loop`.
  At the end everything is written and the folders are free again.

  Raises ValueError for configs that cannot go together.
  """
  validate.config(configs[0])
  seed_axis.check(configs)
  for c, w in zip(configs, workdirs, strict=True):
    workdir_lib.same_config(c, w)
  validate.log(configs[0])
  plans = stage_list.plans(configs[0], stages)
  if stages and configs[0].stage:
    raise ValueError(
      f'this config has stages of its own, c.stages={tuple(configs[0].stages)};'
      ' train all of them by the command train, which goes on where it stopped'
    )
  stage_checks.found(plans)
  stage_checks.demonstrated(plans)
  stage_checks.prefixed(plans)
  stage_checks.roles(plans)
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
    for c in (
      *configs,
      *(x.config for x in plans if x.config is not configs[0]),
    ):
      fields = ['init'] * bool(c.init)
      fields += [f'role.{name}.run' for name, r in c.role.items() if r.run]
      for field in fields:
        workdir_lib.same_model(c, field)
    reporter.say(f'policy: {describe.model(s)}')
    reporter.begin('making the parameters')
    interrupt = stack.enter_context(Interrupt())
    stack.enter_context(placement.on_mesh(configs[0]))
    players = sampler.open_samplers(stack, built, interrupt, workdirs[0])
    each = [
      stages_lib.make_stages(
        x,
        stages or tuple(x.config.stages),
        {name: (of[i], players[name]) for name, of in built.items()},
        w,
      )
      for i, (x, w) in enumerate(zip(experiments, workdirs, strict=True))
    ]
    plan = [seed_stages.batch_stages(axis, x) for x in zip(*each, strict=True)]
    locks = [stack.enter_context(locked(w)) for w in workdirs]
    for c, w in zip(configs, workdirs, strict=True):
      workdir_lib.same_config(c, w)  # of who held the lock before
    checkpoints = [
      checkpoint.Checkpoints(
        os.path.join(w, 'checkpoints'), keep=s.config.checkpoint.keep, check=x
      )
      for w, x in zip(workdirs, locks, strict=True)
    ]
    for x in checkpoints:  # a state that is being saved is whole at the end
      stack.callback(x.close)
    state, resumed, spent = restore_or_init(
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
    look = lambda: [check() for check in (interrupt, *locks)]  # noqa: E731
    stopping = lambda: distributed.allgather_objects(look)  # noqa: E731
    steps = run_loop(
      plan,
      state,
      outputs,
      logger,
      evaluate=stages_lib.evaluations(axis, plan, logger, stopping),
      due=stages_lib.due(plan),
      save_every=s.config.checkpoint.every,
      stopping=stopping,
      spent=spent,
      reporter=reporter,
    )
    with contextlib.closing(steps):
      yield experiments, state, steps
    outputs.close()
    for check in locks:
      check()


@contextlib.contextmanager
def locked(workdir: str):
  """Process 0 holds the workdir's lock; gives what raises once it is lost.

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


def run_loop(
  stages: Sequence[stages_lib.Stage],
  state,
  outputs: RunOutputs,
  logger: TrajectoryLogger,
  *,
  evaluate: Callable,
  due: Callable[[int], bool],
  save_every: int,
  stopping: Callable[[], None] = lambda: None,
  spent: float = 0.0,
  reporter: progress.Progress | None = None,
) -> Iterator[tuple[str, int, TrainState, Metrics]]:
  """Trains stage after stage, from state.step to the end of the last.

  Yields (kind of stage, steps done, state, metrics) after each. The state is
  donated to the next step; a caller that closes the iterator between two steps
  leaves a saved one.

  Args:
    spent: seconds that the run took before it was resumed
    reporter: writes what is done, and how far; None: nobody
  Raises:
    Stopped: by a signal or a lost lock; the state is saved.
    NotFiniteError: no update has been possible for a while; it is saved too.
    NothingPlayedError: nor has an episode; it is saved too.
  """
  began, first, end = time.monotonic(), int(state.step.min()), stages[-1].end
  reporter = reporter or progress.Progress(active=False)
  learning = no_gradient.NoGradient(reporter.say)

  def clock():
    return spent + time.monotonic() - began

  def phase_at(step):
    return next(s.name for s in stages if s.start < step <= s.end)

  def report(step, scalars, *, phase):
    means = {}
    for name in progress.SHOW.keys() & scalars.keys():
      # None of a seed that lacks it, NaN where nothing was scored.
      values = [x for x in np.atleast_1d(scalars[name]) if x is not None]
      if finite := [x for x in values if np.isfinite(x)]:
        means[name] = np.mean(finite)
    if phase == 'eval':
      if (solved := means.get('eval/success')) is not None:
        reporter.say(f'held-out success after step {step}: {solved:.1%}')
      return
    stage = next(s for s in stages if s.name == phase)
    if stage.kind == 'rl':
      learning.see(scalars)
    reporter.update(phase, step - stage.start, stage.end - stage.start, means)

  def play(state, step):
    reporter.begin('evaluating on held-out tasks')
    return evaluate(state, step)

  def save(step, state):
    reporter.begin(f'saving step {step}', quiet=True)
    log.drain()
    logger.drain()
    outputs.save(step, state, {'seconds': clock()})

  saving = hooks.Checkpoint(save, every=save_every, last=end, saved=first)
  nonfinite = hooks.StopOnNonFinite(saving)
  log = hooks.LogMetrics(
    [outputs.write, nonfinite.count, report],
    phase_at,
    clock,
    state.step.shape,
  )
  evaluation = hooks.Evaluate(play, due, log, logger.drain, (first, end))
  stop = hooks.StopOnSignal(stopping, saving, last=end)
  samples = hooks.LogTrajectories(logger, phase_at)
  each_step = [
    stop.remember,
    log,
    samples,
    evaluation,
    saving,
    nonfinite,
    stop,
  ]

  def open_stage(stage, step, state):
    """Opens its data, which may be what this run has logged so far."""
    if step > first:
      log.drain()
      logger.flush()
    try:
      stage.open(step)
    except ValueError:
      saving.save_if_unsaved(step, state)
      raise

  with stop:
    stop.remember(first, state, {}, None)
    if not outputs.evaluated(first):  # a stop cut it, or nothing was done yet
      evaluation(first, state, {}, None)
    for stage in stages:
      step = int(state.step.min())
      if step < stage.end:
        open_stage(stage, step, state)
      if step == stage.start:
        state = stage.begin(state)
      stop(step, state, {}, None)
      steps = loop.iterate(
        stage.algorithm,
        Reported(stage, reporter),
        state,
        steps=stage.end,
        hooks=each_step,
        update=stage.update,
      )
      for step, state, numbers in steps:
        try:
          yield stage.kind, step, state, numbers
        except GeneratorExit:
          saving.save_if_unsaved(step, state)
          raise


class Reported:
  """A stage's sampler that says what is compiled, and computed, at present."""

  def __init__(self, stage: stages_lib.Stage, reporter: progress.Progress):
    self.task, self._stage, self._reporter = stage.task, stage, reporter
    self._compiled: set[str] = set()

  def collect(self, state, attempts, step):
    self._begin('batch')
    return self._stage.collect(state, attempts, step)

  def observe(self, batch):
    observed = self._stage.observe(batch)
    self._begin('update')  # comes next
    return observed

  def _begin(self, what: str) -> None:
    again = what in self._compiled
    self._compiled.add(what)
    verb = 'computing' if again else 'compiling'
    name = f'{verb} the {self._stage.name} {what}'
    self._reporter.begin(name, quiet=again)


def restore_or_init(axis, experiments, checkpoints, stages=None):
  """-> state, the steps resumed after or None, seconds spent so far.

  Args:
    stages: of each of the experiments, those of all stages; None: itself
  """
  s = experiments[0]
  stages = stages or [[x] for x in experiments]
  whole = stage_state.union([x.algorithm for x in stages[0]])

  def fresh(key):
    state = update.init(whole, key)
    if axis.mesh:  # else it is the algorithm's own, on the mesh
      state = state.replace(key=key)
    return stage_state.init_memory(stages[0], state)

  keys = axis.stack([jax.random.key(x.config.seed) for x in experiments])
  states = axis.unstack(axis.jit(fresh)(keys))
  restored = [k.latest(x) for k, x in zip(checkpoints, states, strict=True)]
  resumed = [x[0] if x else None for x in restored]
  if any(restored):
    logging.info('Resuming after step %s', ', '.join(map(str, resumed)))
  spent = max(x[2]['seconds'] if x else 0.0 for x in restored)
  states = [x[1] if x else y for x, y in zip(restored, states, strict=True)]
  for i in range(len(experiments)):
    if not restored[i]:
      states[i] = weights.load_roles(stages[i], states[i])
  begun = s.config.init or s.config.model.path
  if not begun or all(restored):
    return axis.stack(states), resumed, spent
  inits = {x.config.init: x.config for x in experiments}
  policies = {k: weights.start(c, s.shape) for k, c in inits.items()}
  for i, x in enumerate(experiments):
    params = policies[x.config.init]
    if not restored[i] and params is not None:
      states[i] = weights.load_policy_params(whole, params, states[i])

  def start(state):
    new = update.init_roles_from_policy(whole, state)
    return axis.where_at_step(0, new, state)

  return axis.jit(start)(axis.stack(states)), resumed, spent


def finish(s: Experiment, workdir: str) -> str:
  """The learning curve and the summary, from what the run wrote."""
  folder = storage.path(workdir)
  path, curve = folder / metrics.FILE, folder / 'curve.png'
  metrics.repair(path)  # nobody has checked it since the run began
  rows = metrics.read(path)
  run_summary.learning_curve(rows, curve, title=describe.title(s))
  text = run_summary.summary(rows, describe.header(s, workdir))
  storage.write(folder / 'summary.txt', text + '\n')
  return text


def evaluate_run(
  workdir: str,
  *,
  episodes: int = 1000,
  temperature: float = 1.0,
  levels: str | None = None,
  limit: int | None = None,
  seed: int = 0,
  logged: int = 8,
) -> str:
  """Plays with a run's newest policy; returns what to print.

  Args:
    levels: another Sokoban level file, all of whose levels are played; else
      the run's own held-out tasks
    limit: turns; else as many as in training
    logged: trajectories to log
  """
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
    params = algorithm.full_params(s.algorithm.context, state.params)
    numbers, last = evaluate.evaluate(
      functools.partial(playing.play, params),
      np.arange(first, len(s.train) + len(s.test)),
      episodes=episodes,
      batch=c.rollout.batch,
      limit=s.plan.turns,
      temperature=temperature,
      key=stream_key(jax.random.key(seed), Stream.EVAL),
    )
    if text := playing.unplayed():
      raise hooks.NothingPlayedError(text)
    name = 'held_out'
    if levels:
      name = os.path.splitext(os.path.basename(levels))[0]
    path = os.path.join(workdir, 'evaluations', f'{step:06d}_{name}')
    evaluation.write(s, path, step, last, logged)
  head = f'{describe.title(s)}, step {step}, temperature {temperature:g}'
  return evaluation.report(head, s.plan.turns, numbers, path)
