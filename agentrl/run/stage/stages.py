"""Builds the stages of a run and its evaluation hooks."""

import functools
import types
from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging

from agentrl import evaluate, loop, registry
from agentrl.configs import stages as stage_list
from agentrl.configs.stages import StagePlan
from agentrl.dataset.host_tasks import HostTaskSet
from agentrl.learner import algorithm as algorithm_lib
from agentrl.learner import policies
from agentrl.learner import update as update_lib
from agentrl.log.sample import TrajectoryLogger
from agentrl.memory import skills
from agentrl.memory.skills import Practice
from agentrl.rollout import stale
from agentrl.rollout.keys import Stream, step_key, stream_key
from agentrl.run import describe, placement, trajectory_log
from agentrl.run.experiment import Experiment
from agentrl.run.play import collect as collect_lib
from agentrl.run.play import host_env, proposing, seating, strategies
from agentrl.run.play.base import ALONE, Beside, EnvSampler, Newest
from agentrl.run.play.recalled import EVALUATION, recalled
from agentrl.run.seed_axis import SeedAxis
from agentrl.run.stage import prefixes, sft_stages, stage_state
from agentrl.run.stage.base import Stage
from agentrl.run.stage.sources import Built
from agentrl.types import Attempts, Batch, Metrics, PyTree, TrainState

# Of every task set at the ends of stages, beside `eval/...` of the stage's own.
FORGETTING = ('success', 'ci_low', 'ci_high', 'invalid', 'solved', 'episodes')


def rl_stage(
  s: Experiment,
  start: int,
  end: int,
  playing: EnvSampler,
  *,
  beside: Beside = ALONE,
  name: str = 'rl',
  carried: frozenset[str] = frozenset(),
  opener: Callable[[bool], prefixes.Prefixes] | None = None,
) -> Stage:
  """Returns a stage of reinforcement learning on the training tasks.

  Args:
    beside: samplers that collect beside the updates; none: `playing` collects
    carried: roles that go on as an earlier RL stage left them
    opener: whether the stage begins -> what its attempts may begin like; None:
      all is sampled
  """
  alg, c = s.algorithm, s.config
  pick = trajectory_log.sampler_of(s, alg, c.rollout.group_size)
  of_stage = alg._replace(start=start, sample=pick)
  given: list[prefixes.Prefixes] = []

  def open_prefixes(step: int) -> None:
    if opener:
      given[:] = [opener(step <= start)]

  def begin(state: TrainState) -> TrainState:
    return stale.restart(stage_state.begin_rl(s, state, start, carried))

  def task(state: TrainState, step: int) -> Attempts:
    old = stale.oldest(state)
    told = proposing.practice(s, playing, old, step - start)
    attempts = choose_tasks(s, old, step - start, told)
    attempts = recalled(s, old.memory, attempts, step - start)
    for source in given:
      attempts = source.prefixed(attempts, step - start)
    return seating.seated(c, attempts, step - start)

  collect_by = functools.partial(collector, s, of_stage)
  return Stage(
    name,
    'rl',
    start=start,
    end=end,
    experiment=s,
    sampler=playing,
    algorithm=of_stage,
    task=task,
    collect=collect_by(playing),
    collectors=(
      *map(collect_by, beside.samplers),
      *(of_jobs(of_stage) for of_jobs in beside.collectors),
    ),
    halt=beside.halt,
    in_jobs=c.staleness.jobs,
    open=open_prefixes,
    begin=begin,
  )


def collector(
  s: Experiment, alg: algorithm_lib.Algorithm, player: EnvSampler
) -> Callable[..., tuple[Batch, Metrics]]:
  """Returns what has a player make the batches of an RL stage.

  Args:
    alg: of the stage: stages that differ in other slots share their sampler
  """
  bound, measures = s.config.staleness.bound, registry.metrics(alg.spec)
  if len(alg.players) > 1:
    measures = (*measures, policies.ByRole(alg.players))
  branches = 'newest_branches' in registry.provided(alg.spec)

  def collect(state: TrainState, attempts: Attempts, step: int, newest=None):
    old = stale.oldest(state)
    player.update_service_params(old.params)
    key = step_key(old.key, Stream.ROLLOUT, step)
    policy = algorithm_lib.played_params(alg, old.params)
    version = policies.played_versions(alg, old.step if bound else step)
    told, attempts = attempts.practice, attempts.replace(practice=None)
    play = player.collect
    if newest is not None:
      given = follow(alg, newest, state, (policy, int(version)))
      play = functools.partial(play, newest=given)
    if branches:
      now = algorithm_lib.played_params(alg, state.params)
      both = now, policies.played_versions(alg, step)
      play = functools.partial(play, newest=lambda: both)
    batch, seen = play(policy, attempts, key, version)
    if told is not None:
      batch = batch.replace(practice=placement.replicated(told))
    if stale.has_ages(alg.spec, bound):
      now = policies.played_versions(alg, step)
      batch, ages = stale.aged(batch, now)
      seen |= ages
    if newest is not None:
      seen |= stale.spans(batch)
    own = loop.observe_components(batch, measures) if measures else {}
    return batch, seen | own

  return collect


def follow(
  alg: algorithm_lib.Algorithm,
  newest: Callable[[], TrainState | None],
  last: TrainState,
  given: tuple[PyTree, int],
) -> Newest:
  """Returns what gives the policy of the newest state, made once of each.

  Args:
    newest: -> a published state, None while it is computed
    last: the state until there is another
    given: its policy and version
  """

  def policy() -> tuple[PyTree, int]:
    nonlocal last, given
    state = newest()
    if state is not None and state is not last:
      full = algorithm_lib.played_params(alg, state.params)
      last, given = state, (full, int(state.step))
    return given

  return policy


def choose_tasks(
  s: Experiment, state: TrainState, at: int, told: Practice | None = None
) -> Attempts:
  """Chooses what an RL stage attempts at its step `at`, counted from its start.

  Memories that tasks are chosen by come to the host.

  Args:
    told: what is practised from now on; None: the method practises no skills
  """
  spec = s.algorithm.spec
  choose = registry.bind('task', spec.task, spec.values('task', spec.task))
  needs = registry.needs(spec, 'task', 'task', spec.task)
  pools = [x.partition(':')[2] for x in needs if 'memory:' in x]
  memory = jax.device_get({name: state.memory[name] for name in pools})
  if told is not None:
    memory[skills.NAME] = skills.decided(memory[skills.NAME], told, at)
  chosen = choose(collect_lib.plan(s), memory, at)
  return chosen.replace(practice=told)


def make_stages(
  s: Experiment,
  names: Sequence[str],
  built: Built,
  workdir: str = '',
  beside: Mapping[str, Beside] = types.MappingProxyType({}),
) -> list[Stage]:
  """Makes the stages of these names, in order on one step counter.

  Args:
    built: what each of them is built of
    beside: samplers that collect beside the updates, by stage
    workdir: folder of the run, whose log later stages may read
  Raises:
    ValueError: there is nothing to do, or data are missing.
  """
  c, out = s.config, list[Stage]()
  plans = stage_list.plans(c, tuple(names))
  if not plans:
    raise ValueError(
      f'there is nothing to do: steps={c.steps}, sft.steps={c.sft.steps},'
      f' init={c.init!r} (which replaces the warm start); raise one of them'
    )
  for plan in plans:
    of, player = built[plan.name]
    start = out[-1].end if out else 0
    carried = _trained(out) & set(of.config.role)
    if plan.kind == 'rl':
      end = start + plan.steps
      given = prefixes.opener(of, plan.name, player, out, workdir, built)
      out.append(
        rl_stage(
          of,
          start,
          end,
          player,
          beside=beside.get(plan.name, ALONE),
          name=plan.name,
          carried=carried,
          opener=given,
        )
      )
    elif made := sft_stages.make(
      plan, of, start, player, out, workdir, built, carried
    ):
      out.append(made)
    else:
      _without_demos(of, plan, alone=len(plans) == 1)
  return out


def _trained(stages: Sequence[Stage]) -> frozenset[str]:
  """Returns the roles but the policy that earlier stages trained or moved."""
  configs = [(x.kind, x.experiment.config) for x in stages]
  roles = [c.role for kind, c in configs if kind == 'rl' or c.sft.pairs]
  return frozenset(
    name
    for of_stage in roles
    for name, role in of_stage.items()
    if role.kind != 'frozen' and name != update_lib.POLICY
  )


def _without_demos(s: Experiment, plan: StagePlan, alone: bool) -> None:
  """Skips a warm start without demonstrations; refuses other stages."""
  text = f'No task of {describe.task_name(s)} comes with a demonstration.'
  if alone:
    raise ValueError(text)
  if plan.name not in stage_list.OWN:
    raise ValueError(
      f'stage {plan.name}: {text} Set sft.mix to other sources, or leave the'
      ' stage out.'
    )
  way = '--config.init=RUN can take its place.'
  logging.warning('%s The warm start is left out; %s', text, way)


def check_demos(
  plans: Sequence[StagePlan], built: Mapping[str, Sequence[Experiment]]
) -> None:
  """Raises ValueError for demonstrations that a stage cannot show or give."""
  for plan in plans:
    s = built[plan.name][0]
    c = s.config
    if plan.kind == 'rl':
      prefixes.check(s)
      continue
    own = not c.sft.mix and not c.sft.store
    mixed = [c.mix[name] for name in c.sft.mix]
    own |= any(x.kind == 'demonstrations' and not x.of for x in mixed)
    if own and isinstance(s.train, HostTaskSet):
      demos = s.train.demonstration
      host_env.messages(c, s.tokenizer, demos, seats=s.seats)


def eval_hook(
  axis: SeedAxis,
  s: Experiment,
  log: TrajectoryLogger | None,
  playing: EnvSampler,
  stopping: Callable[[], None] = lambda: None,
):
  """Returns (state, step) -> metrics of the held-out tasks, for every seed.

  Args:
    log: of trajectories; None: none are logged
    stopping: raises when the run is to end, between two rounds

  What it returns raises NothingPlayedError where no episode could be played.
  """
  c = s.config
  tasks = len(s.train) + np.arange(len(s.test))
  tasks = np.repeat(tasks, s.seats)  # side by side, as matches are
  keep = trajectory_log.of_record(s)
  exploit = strategies.reader(s)

  @axis.jit
  def fold(key, i):
    return jax.random.fold_in(stream_key(key, Stream.EVAL), i)

  def run(state, step):
    playing.update_service_params(state.params)
    policy = algorithm_lib.played_params(s.algorithm, state.params)

    def play(attempts, i):
      stopping()
      key = fold(state.key, axis.same(np.int32(i)))
      attempts = recalled(s, state.memory, attempts, EVALUATION)
      return playing.play(policy, attempts, key)

    ends, record, attempts = evaluate.play_rounds(
      play,
      tasks,
      episodes=c.eval.episodes,
      batch=c.rollout.batch,
      limit=c.rollout.max_turns,
      temperature=c.eval.temperature,
    )
    counts = {f'eval/{x}': n for x, n in playing.taken().items()}
    scalars, some = [], []
    for i in range(axis.seeds):
      mine, last = axis.seed((ends, record), i)
      scalars.append(evaluate.measure(mine, c.eval.episodes, len(tasks)))
      if exploit is not None:
        scalars[-1] |= exploit(axis.seed(policy, i))
        scalars[-1] |= {'eval/seats': s.seats} if s.seats > 1 else {}
      if c.log.eval_trajectories and log is not None:
        logged = trajectory_log.first(c.log.eval_trajectories, last, attempts)
        some.append(keep(*logged, jnp.int32(step)))
    if some:
      log.write(step, 'eval', axis.stack(some))
    return axis.gather(scalars) | counts

  return run


def evaluations(
  axis: SeedAxis,
  stages: Sequence[Stage],
  log: TrajectoryLogger,
  stopping: Callable[[], None] = lambda: None,
):
  """Returns (state, step) -> metrics of the held-out tasks of the stage.

  Where stages have different task sets, all of them are played at the ends of
  stages, as eval/<stage>/success and others, by the first stage of each.
  """
  hooks = {
    x.name: eval_hook(axis, x.experiment, log, x.sampler, stopping)
    for x in stages
  }
  first = dict[str, Stage]()  # by task set
  for stage in stages:
    first.setdefault(_world(stage), stage)
  others = {
    world: eval_hook(axis, x.experiment, None, x.sampler, stopping)
    for world, x in first.items()
  }
  ends = {stages[0].start, *(stage.end for stage in stages)}

  def run(state, step):
    now = stage_at(stages, step)
    mixed = len(first) > 1 and step in ends
    played = {
      world: play(state, step)
      for world, play in others.items()
      if mixed and world != _world(now)
    }
    # Last, since its trajectories are logged: a stop has cut all or nothing.
    played[_world(now)] = numbers = hooks[now.name](state, step)
    if not mixed:
      return numbers
    out = dict(numbers)
    for world, stage in first.items():
      mine = played[world]
      out |= {f'eval/{stage.name}/{x}': mine[f'eval/{x}'] for x in FORGETTING}
    return out

  return run


def _world(stage: Stage) -> str:
  return stage_list.world(stage.experiment.config)


def stage_at(stages: Sequence[Stage], done: int) -> Stage:
  """Returns the stage that did the last of the steps; of none the first."""
  return next(x for x in stages if done <= x.end)


def due(stages: Sequence[Stage]):
  """Returns steps done -> whether to evaluate then.

  At the end of every stage, before RL, and every so many steps of an RL stage
  and of the last one.
  """
  ends = {stage.end for stage in stages} | {stages[0].start}
  if stages[0].kind == 'sft':
    ends.discard(stages[0].start)

  def due_at(done: int) -> bool:
    stage = stage_at(stages, done)
    every, since = stage.experiment.config.eval.every, done - stage.start
    repeats = stage.kind == 'rl' or stage is stages[-1]
    within = repeats and every and since > 0 and since % every == 0
    return done in ends or bool(within)

  return due_at
