"""Defaults of every experiment, small enough for two CPU cores.

A method's config names a component for every slot; `finish` then writes every
hyper-parameter of these components into `c.hp`, so that each can be overridden:

  --config=configs/oprl.py:tiny --config.hp.signal.implicit_prm.beta=0.1

Arguments after the colon, separated by commas: `tiny` shrinks everything to
a smoke test of under two minutes; `env=frozen_lake` changes the environment;
`judge` has a service say what the last message of a host environment is worth;
`tasks=difficulty_band` chooses tasks by what came of earlier attempts;
`judged=number` has a judge of c.judge score the turns of a method that needs
step scores, where the environment's `progress` would else be read;
`checkpoint=DIR` begins from a pretrained model, with defaults that suit one
(configs/pretrained.py), `lora=16` trains adapters of that rank on it, and
`small` is for one that is too small to reason, as checkpoint=smollm2 is.

configs/config.py declares the fields: domain, meaning and default of each.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from flax import traverse_util
from ml_collections import ConfigDict

import agentrl.advantage
import agentrl.collect
import agentrl.curate
import agentrl.dataset.edit_components
import agentrl.dataset.hindsight
import agentrl.dataset.task_edits
import agentrl.judge
import agentrl.learner.minibatch
import agentrl.loss
import agentrl.memory
import agentrl.prefix
import agentrl.recall
import agentrl.reward
import agentrl.rollout.registered
import agentrl.signal
import agentrl.task  # noqa: F401  all of these register their components
from agentrl import domain, registry
from agentrl.configs import config, envs, pretrained
from agentrl.configs.sections import (
  ReadingConfig,
  RoleConfig,
  RolloutConfig,
  ServiceConfig,
  SourceConfig,
  TrainedRoleConfig,
)
from agentrl.domain import suggest
from agentrl.env import base as env_base
from agentrl.env import goals, proposals, skills

JUDGED = 'judged'  # the term of config argument `judged`

ARGS = {
  'tiny': ('', 'yes'),
  'judge': ('', 'yes'),
  'judged': ('', *registry.names('judge')),
  'tasks': ('', *registry.names('task')),
  'checkpoint': ('',),
  'lora': ('0',),
  'small': ('', 'yes'),
  'env': (*envs.JITTED, *env_base.JIT_FAMILIES, *env_base.FAMILIES),
}


def parse(
  arg: str, env: str = envs.JITTED[0], judged: str = ''
) -> dict[str, str]:
  """Parses 'tiny,env=frozen_lake' -> {'tiny': 'yes', 'env': 'frozen_lake'}.

  Args:
    env, judged: where the argument names none
  """
  out = {name: choices[0] for name, choices in ARGS.items()}
  out |= {'env': env, 'judged': judged}
  for part in filter(None, (arg or '').split(',')):
    name, _, given = part.partition('=')
    value = given or 'yes'
    free = {
      'env': ':' in value,  # 'module:Class'
      'checkpoint': bool(given),
      'lora': value.isdecimal() and int(value) > 0,
    }
    if name not in ARGS or not (free.get(name) or value in ARGS[name]):
      choices = [
        'tiny',
        'small',
        'judge',
        *(f'env={name}' for name in ARGS['env']),
      ]
      choices += [
        f'{key}={name}' for key in ('judged', 'tasks') for name in ARGS[key][1:]
      ]
      raise ValueError(
        f'config argument {part!r} is unknown{suggest(part, choices)}; choose'
        f" from {', '.join(map(repr, choices))}, 'checkpoint=DIR' (a directory"
        " or GGUF file without a comma, a hub name, or smollm2), 'lora=16' and"
        " 'env=module:Class' for a family of your own"
      )
    out[name] = value
  return out


def get_config(
  arg: str = '',
  method: str = '',
  env: str = envs.JITTED[0],
  judged: str = '',
) -> ConfigDict:
  """Returns everything but the components of the method.

  Args:
    arg: of the config file, see `ARGS`
    method: its name
    env: that it is played in unless the argument names another
    judged: the judge of its step scores, likewise
  """
  args = parse(arg, env, judged)
  c = ConfigDict(config.to_dict(config.Config(method=method)))
  c.rollout.kind = 'jit' if envs.in_jit(args['env']) else 'host'
  c.env = envs.settings(args['env'])
  role(c, 'policy', lr=pretrained.SCRATCH_LR)
  hp(c, 'minibatch', 'minibatches', n=2)
  if args['judged']:
    c.judge = (args['judged'],)
    hp(c, 'judge', args['judged'], term=JUDGED)
  if args['tasks']:
    c.task = args['tasks']
    needs = registry.get('task', c.task).needs
    c.memory = tuple(x.partition(':')[2] for x in needs if 'memory:' in x)
  names = [*envs.needs(c), *envs.component_services(c)]
  for name in dict.fromkeys(names + ['judge'] * bool(args['judge'])):
    service(c, name)
  envs.fit(c)
  if args['tiny']:
    shrink(c)
  if args['checkpoint']:
    rank, small = int(args['lora']), bool(args['small'])
    pretrained.fit(c, args['checkpoint'], rank=rank, small=small)
  elif args['lora'] != '0' or args['small']:
    name = 'small' if args['small'] else f'lora={args["lora"]}'
    raise ValueError(
      f'config argument {name} is for a checkpoint; add checkpoint=DIR'
    )
  return c


def shrink(c: ConfigDict) -> None:
  """Shrinks it all to under two minutes, with a gain that can be seen."""
  c.steps, c.micro_batch = 64, 32
  c.rollout.batch = 64
  c.rollout.max_turns = min(c.rollout.max_turns, 6)
  c.env.test = 100
  if c.env.name == 'sokoban':
    c.env.update(dict(min_moves=2, max_moves=4))
  if c.env.name == 'norms':
    c.env.rounds = 3  # of two turns
  c.eval.episodes = 2000
  c.checkpoint.every = 8
  if c.rollout.kind == 'host':  # texts are longer, and so is every step
    c.steps, c.sft.steps, c.rollout.batch = 24, 60, 32
    c.eval.episodes = 500
    c.model.update(dict(width=32, head_dim=8, mlp=96))


def role(
  c: ConfigDict,
  name: str,
  *,
  kind: str = 'train',
  lr: float = 1e-4,
  warmup: int = 5,
  max_grad_norm: float = 1.0,
  heads: int = 0,
  trunk: str = 'learned',
  run: str = '',
) -> None:
  """Adds a network.

  It is trained ('train'), stays as the policy was after the warm start or as
  the newest one of another run is ('frozen'), or is moved after another by a
  signal ('ema'): a language model, or the policy's trunk under as many value
  heads as asked for; a 'stopped' trunk gets no gradient from them, as that of
  the policy never does. Over the run the rate falls linearly from lr to
  lr * final_lr_fraction. With c.lora it is an adapter; an 'ema' is then one of
  a and of b, not of their product.
  """
  given = dict(kind=kind, heads=heads, trunk=trunk, run=run)
  made = RoleConfig(**given)
  if kind == 'train':
    rule = dict(lr=lr, warmup=warmup, max_grad_norm=max_grad_norm)
    made = TrainedRoleConfig(**given, **rule)
  _add(c.role, name, made)


def service(c: ConfigDict, name: str, **fields) -> None:
  """Adds a service that answers an environment, from one of four sources:

  function: 'module:name', of (messages, *, seed) -> str
  role: 'policy' as it is when it plays, or another language model of this run
  run: folder of another run of the same model, whose newest policy it is
  address: an OpenAI-compatible server, and `model`, one of its models

  The others are for models: temperature (at 0 answers are remembered), tokens
  of an answer and of a conversation with its answer. `system` is text that
  precedes the environment's. Its messages are never trained on.
  """
  _add(c.service, name, ServiceConfig(**fields))


def reading(c: ConfigDict, name: str, **fields) -> None:
  """Adds a reading: the batch's messages after a hint that is not the policy's.

  source: the text alone; or behind it a 'demonstration' of the task, the field
    of a 'task' of a host environment, or the 'solution' of another attempt of
    the group; or text and failed by 'outcome'; or what c.recall chooses of a
    'memory', which then stands there alone and not before prompts

  Signals and losses name it; what lacks a hint is read as it was sampled.
  """
  _add(c.reading, name, ReadingConfig(**fields))


def stage(
  c: ConfigDict,
  name: str,
  *,
  steps: int,
  kind: str = 'rl',
  changes: Mapping[str, Any] | None = None,
) -> None:
  """Adds a stage of `steps` steps: the config with changes.

  It is played where c.stages names it. Stages share parameters, one counter
  and one checkpoint; roles of equal name go on, optimizers start afresh.

  Args:
    kind: 'sft' or 'rl'
    changes: {path: value}, such as {'rollout.temperature': 0.7}; env.name
      brings the settings of that environment
  """
  flat = {'kind': kind, 'steps': steps} | dict(changes or {})
  c.stage[name] = ConfigDict(traverse_util.unflatten_dict(flat, sep='.'))


def follow_notes(
  c: ConfigDict,
  steps: int,
  changes: Mapping[str, Any] | None = None,
  *,
  lr: float | None = None,
) -> None:
  """Adds a stage before RL of door codes that teaches a model to read notes.

  Args:
    steps: of RL behind it
    changes: of the stage, beside tasks with codes of their own
    lr: of RL, if the model is trained from scratch
  """
  c.model.update(dict(positions=0, theta=100.0))  # it looks notes up sooner
  told = {'env.told': True, 'env.train': 20_000}
  told |= {'sft.batch': 64, 'sft.lr': 5e-3} | dict(changes or {})
  stage(c, 'follow', kind='sft', steps=3000, changes=told)
  c.stages, c.steps = ('follow', 'rl'), steps
  if lr and not c.model.path:
    c.role.policy.lr = lr


def pair_rounds(
  c: ConfigDict, rounds: int, edit: str, *, loss: tuple[str, ...]
) -> None:
  """Makes a warm start and rounds of stages: sample, then fit to the pairs.

  The reference of a fit is the policy before it.

  Args:
    edit: that lists pairs of the last samples, the better half first
  """
  role(c, 'reference', kind='frozen')
  source(c, 'paired', kind='found', last=1, edits=(edit,))
  fit: dict[str, Any] = {
    'curate': ('as_listed',),
    'hp.minibatch.minibatches.n': 1,
    'loss': loss,
    'sft.mix': ('paired',),
    'sft.pairs': True,
    'signal': ('reference',),
    'sft.lr': c.role.policy.lr,
    'sft.warmup': c.role.policy.warmup,
  }
  alone = {'minibatch': 'none', 'log.groups': -1}
  steps, c.stages = max(1, c.steps // rounds), ('sft',)
  for r in range(1, rounds + 1):
    stage(c, f'sample_{r}', steps=steps, changes=alone)
    stage(c, f'fit_{r}', kind='sft', steps=steps, changes=fit)
    c.stages = (*c.stages, f'sample_{r}', f'fit_{r}')


def source(c: ConfigDict, name: str, **fields) -> None:
  """Adds a source of trajectories, for c.sft.mix or c.prefix_source to name.

  Its edits see all of its trajectories at once, before the first step that
  reads them; their hyper-parameters are at c.hp.<source>.<edit>.
  """
  _add(c.mix, name, SourceConfig(**fields))


def _add(section: ConfigDict, name: str, made: Any) -> None:
  section[name] = ConfigDict(dataclasses.asdict(made))


def step_term(c: ConfigDict) -> str:
  """Returns the term of step scores: a judge's, else the environment's."""
  return JUDGED if c.judge else 'progress'


def good_above(c: ConfigDict) -> float:
  """Returns the score above which a step is good; judges score in [0, 1]."""
  return 0.5 if c.judge else 0.0


def hp(c: ConfigDict, scope: str, component: str, **values) -> None:
  """Sets hyper-parameters of a component of a stream, a term or a slot."""
  c.hp.update({scope: {component: values}})


def replay(c: ConfigDict, memory: str, **values) -> None:
  """Adds a memory that brings trajectories back, and micro-batches that fit.

  Args:
    values: hyper-parameters of the memory
  """
  c.memory = (*c.memory, memory)
  hp(c, 'memory', memory, **values)
  n = values.get('n', registry.get('memory', memory).defaults['n'])
  each = c.rollout.max_turns if c.rollout.history == 'turn' else 1
  rows = (c.rollout.batch + n) * each
  c.micro_batch = math.gcd(c.micro_batch, rows)


def replay_beside(c: ConfigDict, loss: str) -> None:
  """Adds a replayed batch, for all but the policy's loss term of that name."""
  replay(c, 'experience_replay', n=c.rollout.batch)
  c.select[loss] = ConfigDict(dict(source=0))


def finish(c: ConfigDict) -> ConfigDict:
  """Checks the names in c.hp, c.coef and others, then fills in the rest."""
  check_names(c)
  fill(c)
  pretrained.scale_rates(c)
  return c


def check_names(c: ConfigDict) -> None:
  """Raises ValueError for a section that is of no component of the config."""
  w = wiring(c)
  every = registry.defaults(w)
  for scope, components in c.hp.items():
    for component in components:
      if component not in every.get(scope, {}):
        raise ValueError(
          f'c.hp.{scope}.{component} must be of a component of c.{scope} with'
          f' hyper-parameters, {tuple(every.get(scope, {}))}'
        )
  for name in c.coef:
    if name not in (*w.advantage, *w.loss):
      raise ValueError(
        f'c.coef.{name} is neither a stream of c.advantage={w.advantage} nor a'
        f' term of c.loss={w.loss}; remove it or name the component'
      )
  for section in ('loss_aggregation', 'select'):
    for name in c[section]:
      if name not in w.loss:
        raise ValueError(
          f'c.{section}.{name} is for no term of c.loss={w.loss}; remove it or'
          ' name the term'
        )


def fill(c: ConfigDict) -> ConfigDict:
  """Writes every default into c.hp and c.coef, so that flags can reach it."""
  w = wiring(c)
  with c.unlocked():
    for scope, components in registry.defaults(w).items():
      for component, values in components.items():
        hp(c, scope, component, **values)
    for name in (*w.advantage, *w.loss):
      if name not in c.coef:
        c.coef[name] = 1.0
  return c


# Fields that name components, which `wiring` reads before fields are checked.
_SLOTS = (
  *('task', 'recall', 'prefix', 'collect', 'judge', 'reward', 'curate'),
  *('signal', 'advantage', 'post', 'loss', 'memory', 'minibatch'),
)


def _has_names(section: ConfigDict) -> bool:
  try:
    return all(isinstance(x, str) for x in section)
  except TypeError:  # keys of several types have no order
    return False


def _check_slots(c: ConfigDict) -> None:
  """Raises ValueError for a slot or a section that holds something else."""
  for name in (*config.FIXED, 'env', *config.OPEN):
    if name in c and not isinstance(c[name], ConfigDict):
      raise ValueError(
        f'{name} must be a section, got {c[name]!r:.80}; set its fields instead'
      )
    if name in c and not _has_names(c[name]):
      raise ValueError(f'{name} must have fields with names, got other keys')
  policy = c.role.get('policy')
  if not isinstance(policy, ConfigDict) or 'heads' not in policy:
    raise ValueError(
      f'role.policy={policy!r:.80} must be a role with all of its fields; set'
      ' its fields, such as role.policy.lr, not the whole'
    )
  slots, kinds = domain.fields(config.Config), domain.fields(RolloutConfig)
  kinds['kind'].domain.check('rollout.kind', c.rollout.get('kind'))
  domain.Text(empty=False).check('env.name', c.env.get('name'))
  for path in _SLOTS:
    if c[path] != ():  # a slot that is not filled yet is found later
      slots[path].domain.check(path, c[path])
  for section in ('stream', 'loss_aggregation'):
    for name, value in c[section].items():
      config.VALUES[section].domain.check(f'{section}.{name}', value)
  known = domain.fields(SourceConfig)['edits']
  for name, source in c.mix.items():
    edits = source.get('edits') if isinstance(source, ConfigDict) else source
    known.domain.check(f'mix.{name}.edits', edits)


def wiring(c: ConfigDict | config.Config) -> registry.MethodSpec:
  """Returns the slots of a config, or of a Config, as a MethodSpec.

  Raises ValueError, one sentence, for a slot that holds no names.
  """
  if isinstance(c, ConfigDict):
    _check_slots(c)
  return registry.MethodSpec(
    task=c.task,
    recall=c.recall,
    prefix=c.prefix,
    rollout=c.rollout.kind,
    collect=c.collect,
    judge=tuple(c.judge),
    reward=tuple(c.reward),
    curate=tuple(c.curate),
    signal=tuple(c.signal),
    advantage=tuple(c.advantage),
    stream={name: tuple(chain) for name, chain in c.stream.items()},
    post=tuple(c.post),
    loss=tuple(c.loss),
    loss_aggregation=dict.fromkeys(
      c.loss, config.VALUES['loss_aggregation'].default
    )
    | dict(c.loss_aggregation),
    memory=tuple(c.memory),
    minibatch=c.minibatch,
    mix={name: tuple(x.edits) for name, x in c.mix.items()},
    hp=config.to_dict(c.hp),
    gives=(
      'tokenizer',
      *(f'role:{name}' for name in c.role),
      *(('output:value',) if c.role['policy'].heads else ()),
      *(f'term:{name}' for name in envs.terms(c)),
      *((env_base.DESCRIBED,) if envs.described(c) else ()),
      *((proposals.PROPOSES,) if envs.proposes(c) else ()),
      *((goals.STATED,) if envs.states_goals(c) else ()),
      *((skills.SKILLS,) if envs.skilled(c) else ()),
      *(f'column:{name}' for name in envs.columns(c)),
      *(f'service:{name}' for name in c.service),
      *(f'span:{name}' for name in envs.spans(c)),
      *(f'reading:{name}' for name in c.reading),
      *(('reading:nulled',) if c.rollout.null_observation else ()),
    ),
  )
