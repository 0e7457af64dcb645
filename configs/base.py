"""Defaults of every experiment, small enough for two CPU cores.

A method's config names a piece for every slot; `finish` then writes every
hyper-parameter of these pieces into `c.hp`, so that each can be overridden:

  --config=configs/oprl.py:tiny --config.hp.signal.implicit_prm.beta=0.1

Arguments after the colon, separated by commas: `tiny` shrinks everything to
a smoke test of under two minutes; `env=frozen_lake` changes the environment;
`judge` has a service say what the last message of a host environment is worth;
`tasks=difficulty_band` chooses tasks by what came of earlier attempts;
`judged=number` has a judge of c.judge score the turns of a method that needs
step scores, where the environment's `progress` would else be read;
`checkpoint=DIR` begins from a pretrained model, with defaults that suit one
(configs/pretrained.py), and `lora=16` trains adapters of that rank on it.

FIELDS is where a field is declared: its default, the values it may hold and its
meaning with the unit. Checks, `--help` and docs/CONFIG.md are made of it.
"""

import math
from collections.abc import Mapping
from typing import Any

from flax import traverse_util
from ml_collections import ConfigDict

import agentrl.advantage
import agentrl.collect
import agentrl.curate
import agentrl.dataset.edit_components
import agentrl.dataset.task_edits
import agentrl.judge
import agentrl.learner.minibatch
import agentrl.loss
import agentrl.memory
import agentrl.prefix
import agentrl.reward
import agentrl.rollout.registered
import agentrl.signal
import agentrl.task  # noqa: F401  all of these register their pieces
from agentrl import optimizer, registry
from agentrl.configs import envs, pretrained
from agentrl.domain import (
  COUNT,
  COUNT0,
  NOT_NEGATIVE,
  POSITIVE,
  SEED,
  UNIT,
  Field,
  Flag,
  Name,
  OneOf,
  Path,
  Real,
  Text,
  Tuple,
  Whole,
  suggest,
)
from agentrl.env import base as env_base
from agentrl.model.value import TRUNKS
from agentrl.nn import attention_kernels, config
from agentrl.types import Span

FRAMES = ('auto', 'chat', 'bare')
JUDGED = 'judged'  # the term of config argument `judged`
_AXIS = Whole(1, also=(-1,))

FIELDS: dict[str, Field] = {
  'method': Field('', Text(), 'name of the method in records'),
  'seed': Field(0, SEED, 'of everything that is drawn'),
  'data': Field('data', Path(empty=False), 'folder of task sets, built once'),
  'init': Field(
    '', Path(bucket=True), 'run whose policy replaces the warm start'
  ),
  'steps': Field(300, COUNT0, 'RL steps'),
  'stages': Field(
    ('sft', 'rl'),
    Tuple(Name('a stage'), least=1, once=True),
    "stages in order: 'sft' and 'rl', which read sft.* and steps, or those of"
    ' c.stage',
  ),
  'micro_batch': Field(64, COUNT, 'rows of a micro-batch'),
  #
  'model.width': Field(64, COUNT, 'size of a hidden state'),
  'model.layers': Field(2, COUNT, 'layers of the decoder'),
  'model.heads': Field(4, COUNT, 'query heads'),
  'model.kv_heads': Field(4, COUNT, 'key and value heads; they divide heads'),
  'model.head_dim': Field(16, Whole(2), 'size of a head, even'),
  'model.mlp': Field(192, COUNT, 'hidden size of an MLP'),
  'model.theta': Field(10_000.0, Real(1), 'base of rotary positions'),
  'model.positions': Field(1024, COUNT0, 'learned positions; 0: rotary alone'),
  'model.eps': Field(1e-6, POSITIVE, 'added to the variance in a norm'),
  'model.qk_norm': Field(False, Flag(), 'norms on queries and keys'),
  'model.bias': Field(False, Flag(), 'biases on queries, keys and values'),
  'model.tied': Field(True, Flag(), 'embeddings are the output matrix too'),
  'model.attention': Field(
    'auto', OneOf(*attention_kernels.NAMES), 'kernel of rows'
  ),
  'model.remat': Field(
    'none', OneOf(*config.REMAT), 'computed again in the backward pass'
  ),
  'model.dtype': Field('float32', OneOf(*config.DTYPES), 'of the computation'),
  'model.path': Field(
    '', Path(), 'directory or hub name of a checkpoint: its tokenizer, weights'
    ' and config.json, for all but attention, remat and dtype'
  ),
  'model.random': Field(
    False, Flag(), 'weights are drawn as the family of model.path draws them'
  ),
  # rank 0: every role is a model of its own. Else an adapter of its own, on
  # one frozen base.
  'lora.rank': Field(0, COUNT0, 'rank of adapters; 0: none'),
  'lora.alpha': Field(16.0, POSITIVE, 'adapters add alpha / rank a b'),
  'lora.pattern': Field(
    'q|k|v|o', Text('a regular expression', empty=False), 'adapted matrices'
  ),
  'lora.path': Field('', Path(), "PEFT directory that the policy's begins as"),
  #
  'rollout.batch': Field(128, COUNT, 'trajectories of an iteration'),
  'rollout.group_size': Field(8, COUNT, 'trajectories of a task'),
  'rollout.slots': Field(64, COUNT, 'trajectories sampled at a time'),
  'rollout.max_turns': Field(8, COUNT, 'turns of a trajectory, at most'),
  'rollout.max_message_tokens': Field(2, COUNT, 'tokens of a message, at most'),
  'rollout.history': Field(
    'turn', OneOf('turn', 'full'), "what a turn's context holds: the last"
    " observations ('turn') or everything before ('full')"
  ),
  'rollout.window': Field(1, COUNT, 'observations of a context, if by turn'),
  'rollout.context': Field(0, COUNT0, 'tokens of a full context; 0: as needed'),
  'rollout.state_hash_fraction': Field(
    1.0, Real(0, 1, above=True), 'share of an observation that tells states'
    ' apart; 1: all of it'
  ),
  'rollout.temperature': Field(
    1.0, Real(0.01, 100), 'divides the logits, in the learner too'
  ),
  'rollout.top_k': Field(0, COUNT0, 'likeliest tokens sampled from; 0: all'),
  'rollout.top_p': Field(
    1.0, Real(0, 1, above=True), 'probability of the tokens'
    ' that are sampled from (nucleus); 1: all'
  ),
  'rollout.action_prefix': Field(
    '', Text(), 'text that an action begins with, behind whatever reasoning'
  ),
  'rollout.null_observation': Field(
    '', Text(), "observation of the nulled reading; '': no such reading"
  ),
  'rollout.chat_format': Field(
    'auto', OneOf(*FRAMES), "around turns: the checkpoint's chat template"
    " ('chat'), nothing ('bare'), or the template if there is one"
  ),
  'rollout.system': Field('', Text(), "the chat template's system message"),
  # Of the axes that agentrl/mesh.py explains.
  'mesh.data': Field(1, _AXIS, 'devices that split rows; -1: what is left'),
  'mesh.fsdp': Field(1, _AXIS, 'devices that split rows and parameters'),
  'mesh.expert': Field(1, _AXIS, 'devices that split rows and experts'),
  'mesh.sequence': Field(1, _AXIS, 'devices that split the tokens of a row'),
  'mesh.tensor': Field(1, _AXIS, 'devices that split heads, MLPs and words'),
  'mesh.explicit': Field(True, Flag(), 'shardings are part of array types'),
  # Supervised warm start on the solver's own demonstrations.
  'sft.steps': Field(130, COUNT0, 'steps of the warm start'),
  'sft.store': Field(
    '', Text(), 'trajectory store below `data` that replaces demonstrations'
  ),
  'sft.mix': Field(
    (), Tuple(Name('a source'), once=True), 'sources of c.mix that batches are'
    ' mixed of, in place of demonstrations'
  ),
  'sft.batch': Field(32, COUNT, 'demonstrations of a step'),
  'sft.lr': Field(2e-3, NOT_NEGATIVE, 'learning rate of the warm start'),
  'sft.warmup': Field(10, COUNT0, 'updates over which sft.lr rises'),
  #
  # Limits of judges, see c.judge, and errors planted in what they say.
  # Four times the slots of a model of this run, so that its engine never waits.
  'judging.threads': Field(256, COUNT, 'items that are judged at a time'),
  'judging.seconds': Field(60.0, POSITIVE, 'for an item, before it is late'),
  'judging.budget': Field(
    0, COUNT0, 'items of an iteration that each judge sees; 0: all'
  ),
  'judging.flip': Field(0.0, UNIT, 'chance that a score s becomes 1 - s'),
  'judging.noise': Field(0.0, NOT_NEGATIVE, 'deviation of what is added to it'),
  'judging.length_bias': Field(0.0, Real(-1, 1), 'added to a long message'),
  'judging.length_scale': Field(
    100.0, POSITIVE, 'characters of a message to which half of it is added'
  ),
  'judging.position_bias': Field(0.0, Real(-1, 1), 'added to the last turn'),
  'judging.refusal': Field(0.0, UNIT, 'chance that there is no score'),
  'judging.delay': Field(0.0, NOT_NEGATIVE, 'seconds that an answer is late'),
  'judging.seed': Field(0, SEED, 'of these errors'),
  #
  'eval.episodes': Field(1000, COUNT, 'held-out episodes of an evaluation'),
  'eval.every': Field(0, COUNT0, 'RL steps between evaluations; 0: at ends'),
  'eval.temperature': Field(1.0, Real(0, 100), 'of sampling; 0: greedy'),
  'checkpoint.every': Field(20, COUNT, 'steps between checkpoints'),
  'checkpoint.keep': Field(2, COUNT, 'newest checkpoints that stay'),
  'log.groups': Field(1, Whole(-1), 'groups kept as a log; -1: all'),
  'log.every': Field(1, COUNT, 'steps between groups that are kept'),
  'log.eval_trajectories': Field(
    4, COUNT0, 'trajectories logged of an evaluation'
  ),
  'log.wandb': Field('', Text(), "project of Weights & Biases; '': none"),
  # The slots: a method names a piece for each.
  'task': Field('fixed', Name('a task piece'), 'what is attempted'),
  'prefix': Field(
    'none', Name('a prefix piece'), 'turns of a trajectory that are given'
  ),
  'prefix_source': Field(
    '', Text('a source'), "source of c.mix that these are of; '': the"
    ' demonstration of each task'
  ),
  'rollout.kind': Field('jit', Name('a rollout piece'), 'who plays and where'),
  'collect': Field('once', Name('a collect piece'), 'how batches are sampled'),
  'judge': Field((), Tuple(once=True), 'what scores turns after a rollout'),
  'reward': Field(('env',), Tuple(least=1, once=True), 'summed over turns'),
  'curate': Field((), Tuple(once=True), 'which trajectories are trained on'),
  'signal': Field((), Tuple(once=True), 'learned or measured, in order'),
  'advantage': Field((), Tuple(least=1, once=True), 'streams that are summed'),
  'post': Field((), Tuple(), 'links on the sum of the streams'),
  'loss': Field(('ppo',), Tuple(least=1, once=True), 'terms that are summed'),
  'memory': Field((), Tuple(once=True), 'what comes back later'),
  'minibatch': Field(
    'minibatches', Name('a minibatch component'), 'sub-updates of a batch'
  ),
}  # fmt: skip

# One network; see `role`. Those from 'optimizer' on are of kind 'train'.
ROLE: dict[str, Field] = {
  'kind': Field(
    'train',
    OneOf('train', 'frozen', 'ema'),
    'trained, as after the warm start, or moved after another by a signal',
  ),
  'run': Field(
    '', Path(bucket=True), "another run, whose newest policy a 'frozen' one is"
  ),
  'heads': Field(0, COUNT0, 'value heads; 0: a language model'),
  'trunk': Field(
    'learned', OneOf(*TRUNKS), "a 'stopped' one gets no gradient of heads"
  ),
}
TRAINED: dict[str, Field] = {
  'optimizer': Field(
    'adam', optimizer.Optimizer(), 'the update rule, ours or one of optax'
  ),
  'lr': Field(1e-4, NOT_NEGATIVE, 'learning rate at the start of RL'),
  'final_lr_fraction': Field(
    0.0, NOT_NEGATIVE, 'the rate falls to lr times this'
  ),
  'warmup': Field(5, COUNT0, 'updates over which the rate rises'),
  'max_grad_norm': Field(
    1.0, Real(0, above=True, infinite=True), 'most of the gradient norm'
  ),
  'weight_decay': Field(0.0, UNIT, 'decoupled weight decay'),
  'b1': Field(0.9, Real(0, 1, below=True), "Adam's decay of the mean"),
  'b2': Field(0.99, Real(0, 1, below=True), "Adam's decay of the square"),
  'eps': Field(1e-5, POSITIVE, "added to Adam's root mean square"),
  'qk_clip': Field(
    0.0, NOT_NEGATIVE, 'largest attention logit, by QK-clip; 0: any'
  ),
}

# Who answers an environment; see `service`.
SERVICE: dict[str, Field] = {
  'function': Field('', Text("'module:name'"), 'of (messages, *, seed) -> str'),
  'role': Field('', Text('a role'), 'policy, or another language model'),
  'run': Field(
    '', Path(bucket=True), 'another run, whose newest policy answers'
  ),
  'address': Field(
    '', Text('an address'), "of an OpenAI-compatible server: 'https://HOST/v1'"
  ),
  'model': Field('', Text('a name'), 'of a model of that server'),
  'key_env': Field(
    'OPENAI_API_KEY',
    Text('a name'),
    "environment variable of its key; '': none",
  ),
  'requests_per_minute': Field(0, COUNT0, 'sent to it; 0: any number'),
  'timeout': Field(60.0, POSITIVE, 'seconds for its answer'),
  'tries': Field(6, COUNT, 'of one request, of which it may fail all but one'),
  'input_price': Field(0.0, NOT_NEGATIVE, 'of a million tokens it reads'),
  'output_price': Field(0.0, NOT_NEGATIVE, 'of a million tokens it writes'),
  'budget': Field(
    0.0, NOT_NEGATIVE, 'most that a run pays, by these prices; 0: any amount'
  ),
  'temperature': Field(1.0, Real(0, 100), 'of sampling; 0: remembered'),
  'message': Field(32, COUNT, 'tokens of an answer, at most'),
  'context': Field(512, Whole(2), 'tokens of a conversation with its answer'),
  'system': Field('', Text(), "system text before the environment's own"),
}

# A second reading of the batch, with a hint; see `reading`.
READING: dict[str, Field] = {
  'source': Field(
    'text',
    OneOf('text', 'demonstration', 'task', 'outcome', 'solution'),
    'where its hints come from, see agentrl/run/play/readings.py',
  ),
  'text': Field('', Text(), 'hint, or its first line; of what was solved'),
  'failed': Field('', Text(), "hint of what was not solved, by 'outcome'"),
  'field': Field('', Text(), "of a task that is its hint, by 'task'"),
  'shift': Field(
    0, COUNT0, 'tasks further on whose hint it is: a control; 0: its own'
  ),
  'max_tokens': Field(0, COUNT0, 'tokens of a hint that are allowed; 0: any'),
}

# A stage with settings of its own; see `stage`.
STAGE: dict[str, Field] = {
  'kind': Field(
    'rl', OneOf('sft', 'rl'), 'supervised on trajectories, or reinforcement'
  ),
  'steps': Field(0, COUNT0, 'steps of the stage'),
}

# Trajectories that a stage is trained on or begins with; see `source`.
MIX: dict[str, Field] = {
  'kind': Field(
    'demonstrations',
    OneOf('demonstrations', 'store', 'found'),
    "the tasks' own, those of a trajectory store, or those that earlier RL"
    ' stages of the run have logged',
  ),
  'store': Field('', Text(), "trajectory store below `data`, of kind 'store'"),
  'of': Field(
    '',
    Text('a stage'),
    "stage whose tasks demonstrations are of; '': the stage that reads them",
  ),
  'error_rate': Field(
    0.0,
    UNIT,
    'chance that a message of a demonstration is another one: an'
    ' imperfect expert, who goes on as if nothing had happened',
  ),
  'last': Field(
    0, COUNT0, "RL stages before this one that 'found' reads; 0: all"
  ),
  'weight': Field(1.0, NOT_NEGATIVE, 'share of a batch, beside the others'),
  'edits': Field((), Tuple(Name('an edit')), 'edits of all of them, in order'),
}

# Sections that a config fills; '*' is a name of its own choice.
SECTIONS = (
  'host',
  'service',
  'role',
  'reading',
  'mix',
  'stage',  # kind, steps, and below them what differs from the rest of c
  'stream',
  'loss_aggregation',
  'coef',
  'select',
  'schedule',  # path -> (shape, start, end, steps); 0 steps: to the run's end
  'hp',  # hyper-parameters of pieces, which declare their own
)
OPEN: dict[str, Field] = {
  **{f'host.{name}': field for name, field in envs.HOST.items()},
  **{f'service.*.{name}': field for name, field in SERVICE.items()},
  **{f'reading.*.{name}': field for name, field in READING.items()},
  **{f'role.*.{name}': field for name, field in (ROLE | TRAINED).items()},
  **{f'mix.*.{name}': field for name, field in MIX.items()},
  **{f'stage.*.{name}': field for name, field in STAGE.items()},
  'stream.*': Field((), Tuple(Name('a link')), 'links of a stream, in order'),
  'loss_aggregation.*': Field(
    'token_mean', Name(), 'how a loss term is averaged'
  ),
  'coef.*': Field(1.0, Real(), 'weight of a stream or a loss term'),
  'select.*.span': Field(
    'other',
    OneOf(*(x.name.lower() for x in Span)),
    'the types.Span whose tokens a loss term sees',
  ),
  'select.*.source': Field(
    0, Whole(0, 2), 'who a loss term sees: 0 policy, 1 replay, 2 demonstration'
  ),
}


def nested(fields: Mapping[str, Field]) -> dict:
  """Defaults by name, dots as levels."""
  defaults = {path: field.default for path, field in fields.items()}
  return traverse_util.unflatten_dict(defaults, sep='.')


ARGS = {
  'tiny': ('', 'yes'),
  'judge': ('', 'yes'),
  'judged': ('', *registry.names('judge')),
  'tasks': ('', *registry.names('task')),
  'checkpoint': ('',),
  'lora': ('0',),
  'env': (*envs.JITTED, *env_base.FAMILIES),
}


def parse(
  arg: str, env: str = envs.JITTED[0], judged: str = ''
) -> dict[str, str]:
  """'tiny,env=frozen_lake' -> {'tiny': 'yes', 'env': 'frozen_lake'}.

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
      choices = ['tiny', 'judge', *(f'env={name}' for name in ARGS['env'])]
      choices += [
        f'{key}={name}' for key in ('judged', 'tasks') for name in ARGS[key][1:]
      ]
      raise ValueError(
        f'config argument {part!r} is unknown{suggest(part, choices)}; choose'
        f" from {', '.join(map(repr, choices))}, 'checkpoint=DIR' (a directory"
        " without a comma, or a hub name), 'lora=16' and 'env=module:Class' for"
        ' a family of your own'
      )
    out[name] = value
  return out


def get_config(
  arg: str = '',
  method: str = '',
  env: str = envs.JITTED[0],
  judged: str = '',
) -> ConfigDict:
  """Everything but the pieces of the method.

  Args:
    arg: of the config file, see `ARGS`
    method: its name
    env: that it is played in unless the argument names another
    judged: the judge of its step scores, likewise
  """
  args = parse(arg, env, judged)
  c = ConfigDict(nested(FIELDS) | {'method': method})
  c.rollout.kind = 'jit' if args['env'] in envs.JITTED else 'host'
  for name in SECTIONS:
    c[name] = ConfigDict()
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
  names = [*envs.needs(c), *envs.judge_services(c)]
  for name in dict.fromkeys(names + ['judge'] * bool(args['judge'])):
    service(c, name)
  envs.fit(c)
  if args['tiny']:
    shrink(c)
  if args['checkpoint']:
    pretrained.fit(c, args['checkpoint'], int(args['lora']))
  elif args['lora'] != '0':
    raise ValueError(
      f'config argument lora={args["lora"]} adapts a checkpoint; add'
      ' checkpoint=DIR'
    )
  return c


def shrink(c: ConfigDict) -> None:
  """The whole thing in under two minutes, with a gain that can be seen."""
  c.steps, c.micro_batch = 64, 32
  c.rollout.batch = 64
  c.rollout.max_turns = min(c.rollout.max_turns, 6)
  c.env.test = 100
  if c.env.name == 'sokoban':
    c.env.update(dict(min_moves=2, max_moves=4))
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
  fields = ROLE
  if kind == 'train':
    given |= dict(lr=lr, warmup=warmup, max_grad_norm=max_grad_norm)
    fields = ROLE | TRAINED
  c.role[name] = ConfigDict(nested(fields) | given)


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
  c.service[name] = ConfigDict(nested(SERVICE) | fields)


def reading(c: ConfigDict, name: str, **fields) -> None:
  """Adds a reading: the batch's messages after a hint that is not the policy's.

  source: the text alone; or behind it a 'demonstration' of the task, the field
    of a 'task' of a host environment, or the 'solution' of another attempt of
    the group; or text and failed by 'outcome'

  Signals and losses name it; what lacks a hint is read as it was sampled.
  """
  c.reading[name] = ConfigDict(nested(READING) | fields)


def stage(
  c: ConfigDict,
  name: str,
  *,
  steps: int,
  kind: str = 'rl',
  changes: Mapping[str, Any] | None = None,
) -> None:
  """Adds a stage: the config with changes, for so many steps.

  It is played where c.stages names it. Stages share parameters, one counter
  and one checkpoint; roles of equal name go on, optimizers start afresh.

  Args:
    kind: 'sft' or 'rl'
    changes: {path: value}, such as {'rollout.temperature': 0.7}; env.name
      brings the settings of that environment
  """
  flat = {'kind': kind, 'steps': steps} | dict(changes or {})
  c.stage[name] = ConfigDict(traverse_util.unflatten_dict(flat, sep='.'))


def source(c: ConfigDict, name: str, **fields) -> None:
  """Adds a source of trajectories, for c.sft.mix or c.prefix_source to name.

  Its edits see all of its trajectories at once, before the first step that
  reads them; their hyper-parameters are at c.hp.<source>.<edit>.
  """
  c.mix[name] = ConfigDict(nested(MIX) | fields)


def step_term(c: ConfigDict) -> str:
  """The term of step scores: what a judge fills, else the world's truth."""
  return JUDGED if c.judge else 'progress'


def good_above(c: ConfigDict) -> float:
  """Which of these scores are good: those of judges are in [0, 1]."""
  return 0.5 if c.judge else 0.0


def hp(c: ConfigDict, scope: str, piece: str, **values) -> None:
  """Sets hyper-parameters of a piece; scope is a stream, a term or a slot."""
  c.hp.update({scope: {piece: values}})


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
  for scope, pieces in c.hp.items():
    for piece in pieces:
      if piece not in every.get(scope, {}):
        raise ValueError(
          f'c.hp.{scope}.{piece} sets a piece that c.{scope} does not name;'
          f' those with hyper-parameters are {tuple(every.get(scope, {}))}'
        )
  for name in c.coef:
    if name not in (*w.advantage, *w.loss):
      raise ValueError(
        f'c.coef.{name} is neither a stream of c.advantage={w.advantage} nor a'
        f' term of c.loss={w.loss}; remove it or name the piece'
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
    for scope, pieces in registry.defaults(w).items():
      for piece, values in pieces.items():
        hp(c, scope, piece, **values)
    for name in (*w.advantage, *w.loss):
      if name not in c.coef:
        c.coef[name] = 1.0
  return c


# Fields that name pieces, which `wiring` reads before fields are checked.
_SLOTS = (
  *('task', 'prefix', 'rollout.kind', 'collect', 'judge', 'reward', 'curate'),
  *('signal', 'advantage', 'post', 'loss', 'memory', 'minibatch'),
)


def _check_slots(c: ConfigDict) -> None:
  """Raises ValueError for a slot or a section whose value is none of them."""
  for name in SECTIONS:
    if name in c and not isinstance(c[name], ConfigDict):
      raise ValueError(
        f'{name}={c[name]!r:.80} is no section of a config; set its fields, not'
        ' the whole'
      )
  policy = c.role.get('policy')
  if not isinstance(policy, ConfigDict) or 'heads' not in policy:
    raise ValueError(
      f'role.policy={policy!r:.80} must be a role with all of its fields; set'
      ' its fields, such as role.policy.lr, not the whole'
    )
  values = {x: c[x] for x in _SLOTS if '.' not in x}
  values['rollout.kind'] = c.rollout.kind
  for path, value in values.items():
    if value != ():  # a slot that is not filled yet is found later
      FIELDS[path].domain.check(path, value)
  for section in ('stream', 'loss_aggregation'):
    for name, value in c[section].items():
      OPEN[f'{section}.*'].domain.check(f'{section}.{name}', value)
  for name, source in c.mix.items():
    edits = source.get('edits') if isinstance(source, ConfigDict) else source
    MIX['edits'].domain.check(f'mix.{name}.edits', edits)


def wiring(c: ConfigDict) -> registry.MethodSpec:
  """Returns the slots of a config as a MethodSpec.

  Raises ValueError, one sentence, for a slot that holds no names.
  """
  _check_slots(c)
  return registry.MethodSpec(
    task=c.task,
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
    loss_aggregation=dict.fromkeys(c.loss, OPEN['loss_aggregation.*'].default)
    | dict(c.loss_aggregation),
    memory=tuple(c.memory),
    minibatch=c.minibatch,
    mix={name: tuple(x.edits) for name, x in c.mix.items()},
    hp=c.hp.to_dict(),
    gives=(
      'tokenizer',
      *(f'role:{name}' for name in c.role),
      *(('output:value',) if c.role.policy.heads else ()),
      *(f'term:{name}' for name in envs.terms(c)),
      *(f'service:{name}' for name in c.service),
      *(f'span:{name}' for name in envs.spans(c)),
      *(f'reading:{name}' for name in c.reading),
      *(('reading:nulled',) if c.rollout.null_observation else ()),
    ),
  )
