"""Sections of a config: each field with its type, domain, meaning and default.

`configs.config.Config` holds them; those of the environment are in
`configs.env_sections`, those of compacted and edited conversations in
`configs.history_sections`.
"""

import dataclasses
from typing import Annotated

from agentrl.domain import (
  TEMPERATURE,
  Chance,
  Count,
  Count0,
  Flag,
  Name,
  NotNegative,
  OneOf,
  Path,
  Positive,
  Real,
  Seed,
  Text,
  Tuple,
  Whole,
)
from agentrl.model.value import TRUNKS
from agentrl.nn import attention_kernels, config, decode_kernel
from agentrl.optimizer import Optimizer
from agentrl.runtime import precision
from agentrl.types import Span

FRAMES = ('auto', 'chat', 'bare')
Axis = Annotated[int, Whole(1, also=(-1,))]
RunPath = Annotated[str, Path(bucket=True)]
String = Annotated[str, Text()]


@dataclasses.dataclass(frozen=True)
class ModelConfig:
  """Decoder: its sizes, or the checkpoint that it is read from."""

  width: Annotated[Count, 'hidden size'] = 64
  layers: Annotated[Count, 'decoder layers'] = 2
  heads: Annotated[Count, 'query heads'] = 4
  kv_heads: Annotated[Count, 'key and value heads; must divide heads'] = 4
  head_dim: Annotated[int, Whole(2), 'size of a head, even'] = 16
  mlp: Annotated[Count, 'hidden size of an MLP'] = 192
  theta: Annotated[float, Real(1), 'base of rotary positions'] = 10_000.0
  positions: Annotated[
    Count0, 'learned positions; 0: rotary positions only'
  ] = 1024
  eps: Annotated[Positive, 'added to the variance in a norm'] = 1e-6
  qk_norm: Annotated[bool, Flag(), 'normalize queries and keys'] = False
  bias: Annotated[bool, Flag(), 'biases on queries, keys and values'] = False
  tied: Annotated[bool, Flag(), 'tie embeddings and output matrix'] = True
  attention: Annotated[
    str, OneOf(*attention_kernels.NAMES), 'attention kernel of the learner'
  ] = 'auto'
  decode_attention: Annotated[
    str,
    OneOf(*decode_kernel.NAMES),
    "attention of a new token over the cache: XLA's; pallas: a GPU's kernel (up"
    " to 1,024 positions, none of them shared by slots); tokamax: a TPU's, over"
    ' a cache in pages',
  ] = 'xla'
  remat: Annotated[
    str, OneOf(*config.REMAT), 'what the backward pass recomputes'
  ] = 'none'
  dtype: Annotated[
    str,
    OneOf(precision.AUTO, *config.DTYPES),
    'compute dtype; auto: float32 on CPUs, bfloat16 elsewhere',
  ] = 'float32'
  path: Annotated[
    str,
    Path(),
    'directory, GGUF file or hub name of a checkpoint, or smollm2: its'
    ' tokenizer, weights and config.json, which sets all fields but attention,'
    ' decode_attention, remat and dtype',
  ] = ''
  random: Annotated[
    bool, Flag(), 'draw the weights of model.path at random, as its family does'
  ] = False


@dataclasses.dataclass(frozen=True)
class LoraConfig:
  """Low-rank adapters on one frozen base; each role has its own."""

  rank: Annotated[Count0, 'rank of adapters; 0: roles are whole models'] = 0
  alpha: Annotated[Positive, 'adapters add alpha / rank a b'] = 16.0
  pattern: Annotated[
    str,
    Text('a regular expression', empty=False),
    'names of the adapted matrices',
  ] = 'q|k|v|o'
  path: Annotated[str, Path(), 'PEFT directory that the policy starts from'] = (
    ''
  )


@dataclasses.dataclass(frozen=True)
class RolloutConfig:
  """Sizes of a batch, contexts and sampling."""

  batch: Annotated[Count, 'trajectories per step'] = 128
  group_size: Annotated[Count, 'trajectories per task'] = 8
  slots: Annotated[Count, 'trajectories sampled at a time'] = 64
  max_turns: Annotated[Count, 'most turns of a trajectory'] = 8
  max_message_tokens: Annotated[Count, 'most tokens of a message'] = 2
  history: Annotated[
    str,
    OneOf('turn', 'full', 'compact', 'edit'),
    "context of a turn: the last observations ('turn'), the whole trajectory"
    " ('full'), that until it is too long and begins anew behind a summary"
    " ('compact', see compaction), or that without what the policy has dropped"
    " ('edit', see edits)",
  ] = 'turn'
  window: Annotated[Count, "observations in a context of history 'turn'"] = 1
  context: Annotated[
    Count0,
    "most tokens of a context of history 'full' or 'edit'; 0: as needed",
  ] = 0
  state_hash_fraction: Annotated[
    float,
    Real(0, 1, above=True),
    'fraction of an observation that identifies a state; 1: all of it',
  ] = 1.0
  temperature: Annotated[
    float, TEMPERATURE, 'divides the logits, in the learner too'
  ] = 1.0
  top_k: Annotated[Count0, 'sample from the k likeliest tokens; 0: all'] = 0
  top_p: Annotated[
    float,
    Real(0, 1, above=True),
    'sample from the likeliest tokens of this total probability; 1: all',
  ] = 1.0
  action_prefix: Annotated[
    String, 'text before an action, after any reasoning'
  ] = ''
  null_observation: Annotated[
    String, "observation of the nulled reading; '': none"
  ] = ''
  chat_format: Annotated[
    str,
    OneOf(*FRAMES),
    "text around turns: the checkpoint's chat template ('chat'), none"
    " ('bare'), or the template where there is one ('auto')",
  ] = 'auto'
  system: Annotated[String, 'system message of the chat template'] = ''
  kind: Annotated[
    str, Name('a rollout component'), 'how environments are played'
  ] = 'jit'
  seats: Annotated[
    tuple[str, ...],
    Tuple(Name('a role')),
    'role that plays each seat of a game, in their order; (): policy plays all',
  ] = ()
  swap_seats: Annotated[
    Count0,
    'RL steps after which each role of rollout.seats moves on to the next seat;'
    ' 0: never',
  ] = 0
  learn_in_turn: Annotated[
    Count0,
    'updates in which one role of rollout.seats learns alone, before the next'
    ' does; 0: all learn in each',
  ] = 0


@dataclasses.dataclass(frozen=True)
class StalenessConfig:
  """Batches sampled by earlier policy versions, beside the updates."""

  bound: Annotated[
    Count0, 'most updates between sampling a token and training on it; 0: none'
  ] = 0
  order: Annotated[
    str,
    OneOf('fixed', 'latest'),
    "policy version that samples a batch: 'fixed': as old as the bound allows,"
    " the same numbers for any timing; 'latest': the newest when it begins",
  ] = 'fixed'
  swap: Annotated[
    str,
    OneOf('batch', 'turn', 'token'),
    "where a batch takes a newer policy version: 'batch': it keeps the one it"
    " began with; 'turn': at its next messages; 'token': within messages, whose"
    " tokens stay; 'turn' and 'token' need order='latest' and a host"
    ' environment',
  ] = 'batch'
  depth: Annotated[
    int,
    Whole(-1),
    'batches collected at a time beside the updates; 0: none; -1: one for host'
    ' environments or on devices of their own, else none',
  ] = -1
  devices: Annotated[
    Count0,
    'devices that only collect batches, next after the mesh; 0: none, the mesh'
    ' collects; of each job, if jobs collect',
  ] = 0
  jobs: Annotated[
    bool,
    Flag(),
    'batches are collected by jobs of their own (experiments.sampler), any'
    ' number, that come and go',
  ] = False
  address: Annotated[
    String, 'address of this machine at which the jobs reach the learner'
  ] = '127.0.0.1'
  anchor: Annotated[
    str,
    OneOf('', 'behaviour', 'update'),
    "policy that the loss's ratio is to: the one that sampled ('behaviour'), or"
    " the one before the update, with a link that corrects for age ('update');"
    ' a bound above 0 needs it',
  ] = ''


@dataclasses.dataclass(frozen=True)
class MeshConfig:
  """Devices along each axis of the mesh (agentrl/mesh.py)."""

  data: Annotated[Axis, 'devices that split rows; -1: the rest'] = 1
  fsdp: Annotated[Axis, 'devices that split rows and parameters'] = 1
  expert: Annotated[Axis, 'devices that split rows and experts'] = 1
  sequence: Annotated[Axis, 'devices that split the tokens of a row'] = 1
  tensor: Annotated[Axis, 'devices that split heads, MLPs and vocabulary'] = 1
  explicit: Annotated[
    bool, Flag(), 'shardings are part of array types (JAX explicit axes)'
  ] = True


@dataclasses.dataclass(frozen=True)
class SFTConfig:
  """Supervised warm start, on demonstrations unless it names other data."""

  steps: Annotated[Count0, 'steps of the warm start'] = 130
  store: Annotated[
    String, 'trajectory store below `data` to train on, not demonstrations'
  ] = ''
  mix: Annotated[
    tuple[str, ...],
    Tuple(Name('a source'), once=True),
    'sources of c.mix to draw batches from, not demonstrations',
  ] = ()
  pairs: Annotated[
    bool,
    Flag(),
    'train on pairs by c.loss and c.signal, not by likelihood; the data hold'
    ' winners and losers in turn',
  ] = False
  batch: Annotated[Count, 'trajectories per step'] = 32
  lr: Annotated[NotNegative, 'learning rate of the warm start'] = 2e-3
  warmup: Annotated[Count0, 'steps over which sft.lr rises'] = 10


@dataclasses.dataclass(frozen=True)
class JudgingConfig:
  """Limits of judges (c.judge), and errors planted in their scores."""

  # Four times the slots of a model of this run, so that its engine never waits.
  threads: Annotated[Count, 'items judged at a time'] = 256
  seconds: Annotated[Positive, 'seconds per item before it counts as late'] = (
    60.0
  )
  budget: Annotated[
    Count0, 'items that each judge scores per iteration; 0: all'
  ] = 0
  flip: Annotated[Chance, 'probability that a score s becomes 1 - s'] = 0.0
  false_positive: Annotated[
    Chance, 'probability that a score s below 1/2 becomes 1 - s'
  ] = 0.0
  noise: Annotated[
    NotNegative, 'standard deviation of noise added to scores'
  ] = 0.0
  length_bias: Annotated[
    float, Real(-1, 1), 'most that a message gains for its length'
  ] = 0.0
  length_scale: Annotated[
    Positive, 'characters at which a message gains half of length_bias'
  ] = 100.0
  position_bias: Annotated[
    float, Real(-1, 1), 'added to the last turn, less to earlier ones'
  ] = 0.0
  refusal: Annotated[Chance, 'probability that an item gets no score'] = 0.0
  delay: Annotated[NotNegative, 'seconds added to every answer'] = 0.0
  seed: Annotated[Seed, 'random seed of the planted errors'] = 0


@dataclasses.dataclass(frozen=True)
class EvalConfig:
  """Evaluation on held-out tasks."""

  episodes: Annotated[Count, 'held-out episodes per evaluation'] = 1000
  every: Annotated[
    Count0, 'RL steps between evaluations; 0: first and last only'
  ] = 0
  temperature: Annotated[
    float, Real(0, 100), 'sampling temperature; 0: greedy'
  ] = 1.0


@dataclasses.dataclass(frozen=True)
class CheckpointConfig:
  """Checkpoints of the training state."""

  every: Annotated[Count, 'steps between checkpoints'] = 20
  keep: Annotated[Count, 'newest checkpoints to keep'] = 2


@dataclasses.dataclass(frozen=True)
class LogConfig:
  """What is logged beside metrics."""

  groups: Annotated[int, Whole(-1), 'groups logged per step; -1: all'] = 1
  every: Annotated[Count, 'steps between logged groups'] = 1
  eval_trajectories: Annotated[Count0, 'trajectories logged per evaluation'] = 4
  wandb: Annotated[String, "Weights & Biases project; '': none"] = ''


@dataclasses.dataclass(frozen=True)
class RoleConfig:
  """Network of a run that is not trained by gradients; see `base.role`."""

  kind: Annotated[
    str,
    OneOf('train', 'frozen', 'ema'),
    'trained, kept as after the warm start, or moved after another by a signal',
  ] = 'train'
  run: Annotated[RunPath, "run whose newest policy a 'frozen' role is"] = ''
  heads: Annotated[Count0, 'value heads; 0: a language model'] = 0
  trunk: Annotated[
    str, OneOf(*TRUNKS), "heads send no gradient into a 'stopped' trunk"
  ] = 'learned'


@dataclasses.dataclass(frozen=True)
class TrainedRoleConfig(RoleConfig):
  """Network that is trained, with its optimizer."""

  optimizer: Annotated[
    str, Optimizer(), 'update rule: one of ours or of optax'
  ] = 'adam'
  lr: Annotated[NotNegative, 'learning rate at the start of RL'] = 1e-4
  final_lr_fraction: Annotated[
    NotNegative, 'the rate falls linearly to lr times this'
  ] = 0.0
  warmup: Annotated[Count0, 'updates over which the rate rises'] = 5
  max_grad_norm: Annotated[
    float, Real(0, above=True, infinite=True), 'gradient norm to clip to'
  ] = 1.0
  weight_decay: Annotated[Chance, 'decoupled weight decay'] = 0.0
  b1: Annotated[float, Real(0, 1, below=True), "Adam's decay of the mean"] = 0.9
  b2: Annotated[
    float, Real(0, 1, below=True), "Adam's decay of the mean square"
  ] = 0.99
  eps: Annotated[Positive, "added to Adam's root mean square"] = 1e-5
  qk_clip: Annotated[
    NotNegative, 'largest attention logit, by QK-clip; 0: no limit'
  ] = 0.0


@dataclasses.dataclass(frozen=True)
class ServiceConfig:
  """Model or function that answers environments and judges; `base.service`."""

  function: Annotated[
    str, Text("'module:name'"), 'function of (messages, *, seed) -> str'
  ] = ''
  role: Annotated[
    str, Text('a role'), 'language model of this run that answers'
  ] = ''
  run: Annotated[RunPath, 'run whose newest policy answers'] = ''
  address: Annotated[
    str,
    Text('an address'),
    "OpenAI-compatible server that answers: 'https://HOST/v1'",
  ] = ''
  model: Annotated[str, Text('a name'), 'model to ask that server for'] = ''
  key_env: Annotated[
    str, Text('a name'), "environment variable of the API key; '': none"
  ] = 'OPENAI_API_KEY'
  requests_per_minute: Annotated[
    Count0, 'most requests per minute; 0: no limit'
  ] = 0
  timeout: Annotated[Positive, 'seconds to wait for an answer'] = 60.0
  tries: Annotated[Count, 'attempts per request'] = 6
  input_price: Annotated[NotNegative, 'price of a million input tokens'] = 0.0
  output_price: Annotated[NotNegative, 'price of a million output tokens'] = 0.0
  budget: Annotated[
    NotNegative, 'most that a run spends, at these prices; 0: no limit'
  ] = 0.0
  temperature: Annotated[
    float, Real(0, 100), 'sampling temperature; 0: greedy, answers are cached'
  ] = 1.0
  message: Annotated[Count, 'most tokens of an answer'] = 32
  context: Annotated[
    int, Whole(2), 'most tokens of a conversation and its answer'
  ] = 512
  system: Annotated[String, "system text before the environment's own"] = ''


@dataclasses.dataclass(frozen=True)
class ReadingConfig:
  """Second reading of a batch, behind a hint; see `base.reading`."""

  source: Annotated[
    str,
    OneOf('text', 'demonstration', 'task', 'outcome', 'solution', 'memory'),
    'where its hints come from (agentrl/run/play/readings.py)',
  ] = 'text'
  text: Annotated[
    String, "the hint or its first line; with 'outcome', of solved tasks"
  ] = ''
  failed: Annotated[String, "hint of unsolved tasks, with 'outcome'"] = ''
  field: Annotated[String, "task field that is the hint, with 'task'"] = ''
  shift: Annotated[
    Count0, 'use the hint of the task this many further on (a control); 0: own'
  ] = 0
  max_tokens: Annotated[Count0, 'most tokens of a hint; 0: no limit'] = 0


@dataclasses.dataclass(frozen=True)
class StageConfig:
  """Stage with settings of its own; see `base.stage`."""

  kind: Annotated[
    str, OneOf('sft', 'rl'), 'supervised, or reinforcement learning'
  ] = 'rl'
  steps: Annotated[Count0, 'steps of the stage'] = 0


@dataclasses.dataclass(frozen=True)
class SourceConfig:
  """Trajectories to train on or to begin with; see `base.source`."""

  kind: Annotated[
    str,
    OneOf('demonstrations', 'store', 'found'),
    "the tasks' demonstrations, a trajectory store, or what earlier RL stages"
    ' of the run logged',
  ] = 'demonstrations'
  store: Annotated[
    String, "trajectory store below `data`, with kind 'store'"
  ] = ''
  of: Annotated[
    str,
    Text('a stage'),
    "stage whose tasks to demonstrate; '': the stage that reads them",
  ] = ''
  error_rate: Annotated[
    Chance,
    'probability that a demonstrated message is replaced: an imperfect expert'
    ' that goes on regardless',
  ] = 0.0
  last: Annotated[Count0, "earlier RL stages that 'found' reads; 0: all"] = 0
  weight: Annotated[NotNegative, 'share of a batch, relative to others'] = 1.0
  edits: Annotated[
    tuple[str, ...], Tuple(Name('an edit')), 'edits of its trajectories'
  ] = ()


@dataclasses.dataclass(frozen=True)
class SelectConfig:
  """Tokens that a loss term sees; a config sets either field or both."""

  span: Annotated[
    str,
    OneOf(*(x.name.lower() for x in Span)),
    'types.Span whose tokens the term sees',
  ] = 'other'
  source: Annotated[
    int,
    Whole(0, 2),
    'source the term sees: 0 policy, 1 replay, 2 demonstration',
  ] = 0
