"""From a config to the parts of a run; every mistake is found here.

Nothing below this floor knows ConfigDict or flags.
"""

import dataclasses
import functools
import os
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from ml_collections import ConfigDict

from agentrl import learner as learner_lib
from agentrl import mesh, method, optim, registry
from agentrl.dataset import spoken as spoken_lib
from agentrl.dataset import tasks as tasks_lib
from agentrl.env.jit import (
  bifurcation,
  boxoban,
  frozen_lake,
  sokoban,
  sokoban_levels,
)
from agentrl.model import adapter, peft, policy, value
from agentrl.nn import lora, transformer
from agentrl.rollout import host as host_rollout
from agentrl.rollout import jit as jit_rollout
from agentrl.rollout import options, speak
from agentrl.rollout import readings as readings_lib
from agentrl.rollout import record as record_lib
from agentrl.schedule import Schedule
from agentrl.signal.base import Context
from agentrl.task.fixed import attempts as make_attempts
from agentrl.text import chat as chat_lib
from agentrl.text import frame as frame_lib
from agentrl.text import parse, render, tokenizer
from agentrl.types import Attempts, Batch, Rows
from configs import base, worlds
from experiments import check, hosting, pretrained


class Room(NamedTuple):
  """What a rollout's arrays hold."""

  context: int  # C, tokens that are new to the model in a turn
  row: int  # T, tokens of a row


class Setup(NamedTuple):
  """What a run is made of."""

  config: ConfigDict
  tokenizer: tokenizer.Tokenizer
  world: jit_rollout.World | host_rollout.Stage
  plan: jit_rollout.Plan | host_rollout.Limits
  room: Room
  shape: transformer.Shape
  train: tasks_lib.TaskSet | spoken_lib.TaskSet  # tasks [0, len(train))
  test: tasks_lib.TaskSet | spoken_lib.TaskSet  # the tasks after them
  framed: bool  # a chat template stands around turns
  learner: learner_lib.Learner
  warm: learner_lib.Learner  # supervised


def setup(c: ConfigDict) -> Setup:
  """Checks the config, then loads or builds its task sets."""
  check.config(c)
  if c.rollout_kind == 'host':
    return _hosted(c)
  source, env = environment(c)
  check.terms(c, env.columns)
  words, shape, chat = pretrained.language(c)
  spoken(c, words, env.actions)
  plan = make_plan(c)
  learner = make_learner(c, shape)
  if c.lora.path:
    peft.check(c.lora.path, shape, lora_of(c))
  world = framed(c, without_tasks(c, words, env), chat)
  check.positions(shape, jit_rollout.capacity(world, plan))
  room = jit_room(world, plan)
  check.room(c, room.context + plan.message)
  train, test = task_sets(c, source)
  both = jax.tree.map(
    lambda a, b: jnp.asarray(np.concatenate([a, b])), train.tasks, test.tasks
  )
  world = world.replace(tasks=both)
  warm = _warm(c, learner)
  framing = chat is not None
  return Setup(
    *(c, words, world, plan, room, shape, train, test, framing, learner, warm)
  )


def _hosted(c: ConfigDict) -> Setup:
  """The parts of a run whose environment is not inside jit."""
  if jax.process_count() > 1:
    raise ValueError(
      f'env.name={c.env.name!r} is a host environment, which this version plays'
      ' in one process; start a single one, which may have many devices'
    )
  words, shape, chat = pretrained.language(c)
  learner = make_learner(c, shape)
  if c.lora.path:
    peft.check(c.lora.path, shape, lora_of(c))
  known = hosting.sized(c, words, chat)
  limits = known.limits
  room = host_room(limits)
  check.positions(shape, limits.context)
  check.room(c, limits.width + limits.message)
  world, train, test = hosting.parts(c, known)
  warm = _warm(c, learner)
  framing = chat is not None
  return Setup(
    *(c, words, world, limits, room, shape, train, test, framing, learner, warm)
  )


def jit_room(world: jit_rollout.World, plan: jit_rollout.Plan) -> Room:
  context = jit_rollout.context_tokens(world, plan)
  return Room(context, jit_rollout.row_tokens(world, plan))


def host_room(limits: host_rollout.Limits) -> Room:
  if limits.history == 'full':
    return Room(limits.width, limits.context)
  return Room(limits.width, limits.width + limits.message)


def make_plan(c: ConfigDict) -> jit_rollout.Plan:
  """Capacities of the config's rollouts."""
  return jit_rollout.Plan(
    **{f.name: c.rollout[f.name] for f in dataclasses.fields(jit_rollout.Plan)}
  )


def without_tasks(c: ConfigDict, words, env) -> jit_rollout.World:
  """The environment and its words, before there is anything to play."""
  return jit_rollout.World(
    pieces=render.piece_table(words, env.pieces),
    actions=parse.action_table(words, env.actions, tag=c.rollout.tag),
    tasks=None,
    env=env,
  )


def framed(
  c: ConfigDict, world: jit_rollout.World, chat: chat_lib.Chat | None
) -> jit_rollout.World:
  """The world with a chat's frame around its turns."""
  if chat is None:
    return world
  check.framed(c)
  env = world.env
  said = spoken(c, chat.words, env.actions)
  frame = frame_lib.frame(chat, env.pieces, said, system=c.rollout.system)
  pieces = world.pieces.replace(suffix=frame.after)
  return world.replace(pieces=pieces, frame=frame)


def task_sets(c: ConfigDict, source) -> list[tasks_lib.TaskSet]:
  """The train and the test tasks; a level file has what it has."""
  count = {'train': c.env.train, 'test': c.env.test}
  if isinstance(source, boxoban.Boxoban):
    sizes = source.sizes()
    if not all(sizes.values()):
      raise ValueError(
        f'env.levels={c.env.levels!r} gives {sizes["train"]} levels to train'
        f' on and {sizes["test"]} held out, and both are needed; about one'
        ' level in five is held out, so add levels to the file'
      )
    count = {k: min(n, sizes[k]) for k, n in count.items()}
  return [
    tasks_lib.load(source, split, n, c.env.seed, folder=c.data)
    for split, n in count.items()
  ]


def for_evaluation(
  c: ConfigDict, levels: str | None, limit: int | None
) -> ConfigDict:
  """The config of a run, changed to other levels and another turn limit."""
  c = ConfigDict(c.to_dict())
  if limit:
    c.rollout.turns = limit
  # Nothing is trained: the row counts only have to divide.
  c.micro = c.sft.batch = c.rollout.batch
  if levels:
    if c.env.name != 'sokoban':
      raise ValueError(
        f'--levels={levels} is for runs of Sokoban; this one plays {c.env.name}'
      )
    c.env.levels = os.path.abspath(levels)
    c.env.train = c.env.test = sum(boxoban.Boxoban(levels).sizes().values())
  return c


REWARDS = {'dense': {}, 'sparse': sokoban.SPARSE}


def environment(c: ConfigDict):
  """(task source, environment) of c.env."""
  e = c.env
  if e.name == 'frozen_lake':
    source = frozen_lake.Lakes(
      height=e.height, width=e.width, intended=1 / 3 if e.slip else 1.0
    )
    return source, frozen_lake.env_for(source, invalid_reward=-e.invalid)
  if e.name == 'bifurcation':
    check.length(c)
    source = bifurcation.Bifurcations(
      length=e.length, choices=e.choices, slip=e.slip, filler=e.filler
    )
    return source, bifurcation.env_for(source, invalid_reward=-e.invalid)
  if e.name != 'sokoban':
    known = ' or '.join(map(repr, worlds.JITTED))
    raise ValueError(f'env.name={e.name!r} is unknown; choose {known}')
  if e.reward not in REWARDS:
    raise ValueError(
      f'env.reward={e.reward!r} is unknown; choose from {tuple(REWARDS)}'
    )
  if e.levels:
    source = boxoban.Boxoban(path=e.levels)
  else:
    source = sokoban_levels.Generated(
      height=e.height,
      width=e.width,
      boxes=e.boxes,
      min_moves=e.min_moves,
      max_moves=e.max_moves,
    )
  return source, sokoban_levels.env_for(
    source, coordinates=e.coordinates, **REWARDS[e.reward]
  )


NOT_RULE = (
  'kind',
  'heads',
  'trunk',
  'final',
)  # fields of a role, not of its optimizer


def make_learner(c: ConfigDict, shape) -> learner_lib.Learner:
  temperature = c.rollout.temperature
  language = policy.module(shape, temperature)
  modules = {
    name: value.module(shape, r.heads, r.trunk) if r.heads else language
    for name, r in c.role.items()
  }
  heads = c.role.policy.heads
  modules['policy'] = policy.module(shape, temperature, heads)
  if c.lora.rank:
    modules = adapter.modules(modules, language, lora_of(c))
  rules = {}
  for name, r in c.role.items():
    if r.kind == 'train':
      if r.optimizer not in optim.DIRECTIONS:
        raise ValueError(
          f'role.{name}.optimizer={r.optimizer!r} is unknown; choose from'
          f' {tuple(optim.DIRECTIONS)}'
        )
      fields = {k: v for k, v in r.items() if k not in NOT_RULE}
      rules[name] = optim.Rule(**fields)
    elif r.kind not in ('frozen', 'average'):
      raise ValueError(
        f"role.{name}.kind={r.kind!r} is unknown; choose 'train', 'frozen' or"
        " 'average'"
      )
  return learner_lib.Learner(
    wiring=base.wiring(c),
    context=Context(modules=modules, rules=rules, micro=c.micro),
    coef=dict(c.coef),
    select={name: dict(x) for name, x in c.select.items()},
    schedules=schedules(c),
    seed=c.seed,
  )


def lora_of(c: ConfigDict) -> lora.Lora:
  return lora.Lora(c.lora.rank, c.lora.alpha, c.lora.pattern)


def schedules(c: ConfigDict) -> dict[str, Schedule]:
  """Those of c.schedule and of the roles' rates.

  One of 0 steps lasts as long as the RL stage.
  """
  found = {
    f'role.{name}.lr': Schedule('linear', r.lr, r.lr * r.final, 0)
    for name, r in c.role.items()
    if r.kind == 'train' and r.final != 1.0
  }
  found |= {p: Schedule(*s) for p, s in check.flat(c.schedule).items()}
  return {p: s._replace(steps=s.steps or c.steps) for p, s in found.items()}


def _warm(c: ConfigDict, learner: learner_lib.Learner) -> learner_lib.Learner:
  """The supervised learner: same policy, its own rate, loss nll."""
  rule = learner.context.rules['policy']
  rule = rule._replace(lr=c.sft.lr, warmup=c.sft.warmup)
  rules = {**learner.context.rules, 'policy': rule}
  return learner_lib.Learner(
    wiring=registry.Wiring(loss=('nll',), gives=('role:policy',)),
    context=learner.context._replace(rules=rules),
    seed=c.seed,
  )


def play(s: Setup, params, attempts: Attempts, key) -> record_lib.Record:
  """The policy at the attempts, inside jit."""
  r, plan, given = s.config.rollout, s.plan, None
  if attempts.prefix is not None:
    given = record_lib.given(attempts.prefix, plan.turns, plan.message)
  speaker = speak.model(
    s.shape,
    params,
    message=plan.message,
    eot=s.tokenizer.eot,
    top_k=r.top_k,
    top_p=r.top_p,
    given=given,
  )
  return jit_rollout.rollout(s.world, plan, speaker, attempts, key)


def score(s: Setup, batch: Batch) -> Batch:
  """The batch with what its turns earned."""
  w = base.wiring(s.config)
  pieces = [
    registry.bind('reward', n, w.values('reward', n), 'c.reward')
    for n in w.reward
  ]
  total = sum(f(batch.turns, batch.outcome, batch.status) for f in pieces)
  turns = batch.turns.replace(reward=total)
  return batch.replace(turns=turns)


def layout(s: Setup, record: record_lib.Record) -> record_lib.Layout:
  if s.plan.history == 'turn':
    return record_lib.per_turn(record)
  return record_lib.full_history(record, s.room.row)


def readings(s: Setup, record: record_lib.Record, version) -> dict[str, Rows]:
  """The record's messages in other contexts, as the config wants them."""
  text = s.config.rollout.nulled
  if not text:
    return {}
  null = jnp.asarray(s.tokenizer.encode(text), jnp.int32)
  if s.world.frame:
    null = frame_lib.alone(s.world.frame, null)
  if s.plan.history == 'turn':
    return {'nulled': readings_lib.nulled_turns(record, null, version)}
  rows = readings_lib.nulled_history(record, null, version, s.room.row)
  return {'nulled': rows}


def collect(s: Setup, params, attempts: Attempts, key, version) -> Batch:
  """Rollout and rewards: one jitted program."""

  def sample(attempts, key):
    record = marked(s, play(s, params, attempts, key))
    batch = record_lib.batch(record, layout(s, record), attempts, version)
    return batch.replace(readings=readings(s, record, version))

  batch, _ = collector(s.config)(
    sample, functools.partial(score, s), attempts, memory=(), carry=(), key=key
  )
  return batch


def collector(c: ConfigDict):
  """The collect piece of the config."""
  values = base.wiring(c).values('collect', c.collect)
  return registry.bind('collect', c.collect, values, 'c.collect')


def attempted(c: ConfigDict) -> int:
  """Attempts that a batch is made of: more than it holds, if some are left out.

  That is told by the collect piece's hyper-parameter `times`.
  """
  values = base.wiring(c).values('collect', c.collect)
  how = registry.settings(registry.get('collect', c.collect), values)
  return c.rollout.batch * how.get('times', 1)


def marked(s: Setup, record: record_lib.Record) -> record_lib.Record:
  """The record with the spans of its messages, where they have parts."""
  c = s.config
  if c.rollout_kind != 'options':
    return record
  switch = options.token(
    s.tokenizer, c.hp.rollout.options.switch, 'hp.rollout.options.switch'
  )
  tag = options.token(s.tokenizer, c.rollout.tag, 'rollout.tag')
  return options.mark(record, switch, tag)


def demonstrate(s: Setup, attempts: Attempts, said, length, key) -> Batch:
  """Rows of the solver's own messages, replayed in the environment."""
  speaker = speak.script(said, length)
  record = jit_rollout.rollout(s.world, s.plan, speaker, attempts, key)
  batch = record_lib.batch(record, layout(s, record), attempts, 0)
  ids = {**batch.ids, 'source': batch.ids['source'] + 2}
  return batch.replace(ids=ids)


def sharded(f, donate=()):
  """jit of a function that makes a Batch: rows split over the mesh."""

  def run(*args):
    if not mesh.is_explicit():
      return f(*args)
    whole = jax.sharding.auto_axes(f, out_sharding=PartitionSpec())
    shapes = jax.eval_shape(whole, *args)
    specs = jax.tree.map(lambda x: PartitionSpec(), shapes)
    split = {
      name: jax.tree.map(lambda x: mesh.spec('batch'), vars(shapes)[name])
      for name in ('rows', 'readings')
    }
    specs = specs.replace(**split)
    return jax.sharding.auto_axes(f, out_sharding=specs)(*args)

  return jax.jit(run, donate_argnums=donate)


def whole(f):
  """jit of a function whose result every process can read."""

  def run(*args):
    if not mesh.is_explicit():
      return f(*args)
    return jax.sharding.auto_axes(f, out_sharding=PartitionSpec())(*args)

  out = None
  if mesh.active() and not mesh.is_explicit():
    out = NamedSharding(jax.sharding.get_mesh(), PartitionSpec())
  return jax.jit(run, out_shardings=out)


def replicated(x):
  """Host arrays on every device of the mesh that is set."""
  if not mesh.active():
    return jax.device_put(x)
  whole = NamedSharding(jax.sharding.get_mesh(), PartitionSpec())
  return jax.device_put(x, whole)


def spoken(c: ConfigDict, words: tokenizer.Tokenizer, actions):
  """The tokens of the message that says each action, end of turn included.

  In three parts: those that keep the action as a subgoal, then the switches.
  """
  # Each by itself, as parse.action_table has them: together they may merge.
  tag = words.encode(c.rollout.tag, specials=True)
  said = [[*tag, *words.encode(a, specials=True), words.eot] for a in actions]
  if c.rollout_kind == 'options':
    o = c.hp.rollout.options
    said = [
      [options.token(words, o[name], f'hp.rollout.options.{name}'),
       *words.encode(subgoal), *rest]
      for name in ('keep', 'switch')
      for subgoal, rest in zip(actions, said, strict=True)
    ]  # fmt: skip
  longest = max(len(x) for x in said)
  if longest > c.rollout.message:
    raise ValueError(
      f'an action takes {longest} tokens with its end of turn and'
      f' rollout.message={c.rollout.message} allows fewer; set it to {longest}'
    )
  return said


def messages(s: Setup, taskset: tasks_lib.TaskSet):
  """The solver's actions as tokens: [n, K, M] and their lengths [n, K]."""
  n, k, m = len(taskset), s.plan.turns, s.plan.message
  said = spoken(s.config, s.tokenizer, s.world.env.actions)
  table = np.zeros((len(said) + 1, m), np.int32)
  for i, x in enumerate(said):
    table[i, : len(x)] = x
  size = np.array([len(x) for x in said] + [0], np.int32)
  actions = np.full((n, k), -1)
  width = min(k, taskset.actions.shape[1])
  actions[:, :width] = taskset.actions[:, :width]
  if s.config.rollout_kind == 'options':
    actions += options.new_subgoals(actions) * len(s.world.env.actions)
  return table[actions], size[actions]


def forget(s: Setup, state):
  """The state with empty memories, of the shapes that collecting gives."""
  if not s.learner.wiring.memory:
    return state
  attempts = attempts_at(np.zeros(s.config.rollout.batch, np.int32), 1)
  policy = method.whole(s.learner.context, state.params)
  sample = functools.partial(collect, s)
  if s.config.rollout_kind == 'host':
    sample = functools.partial(_unplayed, s)
  batch = jax.eval_shape(
    sharded(sample), policy, replicated(attempts), state.key, state.step
  )
  return learner_lib.forget(s.learner, state, batch)


def _unplayed(s: Setup, params, attempts: Attempts, key, version) -> Batch:
  """A batch of the shapes that host environments give."""
  limits, columns = s.plan, s.world.family.columns
  sizes = limits.turns, limits.width, limits.message
  record = record_lib.empty(attempts.task.shape[0], *sizes, columns)
  batch = record_lib.batch(record, layout(s, record), attempts, version)
  return score(s, batch)


def demo_attempts(s: Setup, index: np.ndarray) -> Attempts:
  """Attempts at tasks, each as long as its demonstration."""
  length = np.sum(s.train.actions[index] >= 0, axis=1)
  return attempts_at(index, np.minimum(length, s.plan.turns))


def attempts_at(index: np.ndarray, turns) -> Attempts:
  """Attempts at tasks, each of its own number of turns, at least one."""
  a = make_attempts(index, 1, 1, 1.0)
  return a.replace(limit=np.maximum(turns, 1).astype(np.int32))
