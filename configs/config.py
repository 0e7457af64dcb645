"""Config: everything that an experiment is built from.

Flags, the checks of `agentrl.run.check.fields`, `--help` and docs/CONFIG.md are
read from these classes. Config files fill a mutable ConfigDict of the same
names (`configs/base.py`); `fields.read` checks it and returns the Config.
"""

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, cast

from ml_collections import ConfigDict

from agentrl import domain
from agentrl.configs.env_sections import (
  EnvConfig,
  FamilyConfig,
  HostConfig,
  SokobanConfig,
)
from agentrl.configs.history_sections import CompactionConfig, EditsConfig
from agentrl.configs.sections import (
  CheckpointConfig,
  EvalConfig,
  JudgingConfig,
  LogConfig,
  LoraConfig,
  MeshConfig,
  ModelConfig,
  ReadingConfig,
  RoleConfig,
  RolloutConfig,
  RunPath,
  SelectConfig,
  ServiceConfig,
  SFTConfig,
  SourceConfig,
  StageConfig,
  StalenessConfig,
  String,
  TrainedRoleConfig,
)
from agentrl.domain import (
  Count,
  Count0,
  Field,
  Name,
  Path,
  Real,
  Seed,
  Text,
  Tuple,
)

Names = Annotated[tuple[str, ...], Tuple(once=True)]
SomeNames = Annotated[tuple[str, ...], Tuple(least=1, once=True)]  # or more


@dataclasses.dataclass(frozen=True)
class Config:
  """Everything that an experiment is built from.

  Sections of names that a config chooses are dicts: role['policy'].lr.
  """

  method: Annotated[String, 'name of the method in records'] = ''
  seed: Annotated[Seed, 'random seed'] = 0
  data: Annotated[
    str, Path(empty=False), 'folder of task sets, which are built once'
  ] = 'data'
  init: Annotated[RunPath, 'run whose policy replaces the warm start'] = ''
  steps: Annotated[Count0, 'RL steps'] = 300
  stages: Annotated[
    tuple[str, ...],
    Tuple(Name('a stage'), least=1, once=True),
    "stages in order: 'sft' (sft.*), 'rl' (steps), and stages of c.stage",
  ] = ('sft', 'rl')
  micro_batch: Annotated[Count, 'rows per micro-batch'] = 64
  model: ModelConfig = ModelConfig()
  lora: LoraConfig = LoraConfig()
  rollout: RolloutConfig = RolloutConfig()
  compaction: CompactionConfig = CompactionConfig()
  edits: EditsConfig = EditsConfig()
  staleness: StalenessConfig = StalenessConfig()
  mesh: MeshConfig = MeshConfig()
  sft: SFTConfig = SFTConfig()
  judging: JudgingConfig = JudgingConfig()
  eval: EvalConfig = EvalConfig()
  checkpoint: CheckpointConfig = CheckpointConfig()
  log: LogConfig = LogConfig()
  # The slots: a method names components for each.
  task: Annotated[
    str, Name('a task component'), 'which tasks are attempted'
  ] = 'fixed'
  recall: Annotated[
    str, Name('a recall component'), 'texts of a memory that attempts read'
  ] = 'none'
  prefix: Annotated[
    str, Name('a prefix component'), 'given turns that trajectories begin with'
  ] = 'none'
  prefix_source: Annotated[
    str,
    Text('a source'),
    "source of c.mix for these turns; '': each task's demonstration",
  ] = ''
  collect: Annotated[
    str, Name('a collect component'), 'how a batch is sampled'
  ] = 'once'
  judge: Annotated[Names, 'judges that score turns after a rollout'] = ()
  reward: Annotated[SomeNames, 'rewards, summed per turn'] = ('env',)
  curate: Annotated[Names, 'which trajectories are trained on'] = ()
  signal: Annotated[Names, 'learned or measured signals, in order'] = ()
  advantage: Annotated[SomeNames, 'advantage streams, summed'] = ()
  post: Annotated[
    tuple[str, ...], Tuple(), 'links applied to the sum of the streams'
  ] = ()
  loss: Annotated[SomeNames, 'loss terms, summed'] = ('ppo',)
  memory: Annotated[Names, 'what is kept from step to step'] = ()
  minibatch: Annotated[
    str, Name('a minibatch component'), 'how a batch is split into updates'
  ] = 'minibatches'
  # Sections whose names a config chooses.
  env: EnvConfig = SokobanConfig()
  host: HostConfig = HostConfig()
  service: Mapping[str, ServiceConfig] = dataclasses.field(default_factory=dict)
  role: Mapping[str, RoleConfig] = dataclasses.field(default_factory=dict)
  reading: Mapping[str, ReadingConfig] = dataclasses.field(default_factory=dict)
  mix: Mapping[str, SourceConfig] = dataclasses.field(default_factory=dict)
  # kind, steps, and below them what differs from the rest of the config.
  stage: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  stream: Mapping[str, tuple[str, ...]] = dataclasses.field(
    default_factory=dict
  )
  loss_aggregation: Mapping[str, str] = dataclasses.field(default_factory=dict)
  coef: Mapping[str, float] = dataclasses.field(default_factory=dict)
  select: Mapping[str, Mapping[str, Any]] = dataclasses.field(
    default_factory=dict
  )
  # Path -> (shape, start, end, steps); 0 steps: to the run's end.
  schedule: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  # Hyper-parameters of components, which declare their own.
  hp: Mapping[str, Any] = dataclasses.field(default_factory=dict)


# Sections of fixed names; those of a config's own names, with their fields;
# and those that hold one value per name.
FIXED: dict[str, type] = {
  f.name: f.type
  for f in dataclasses.fields(Config)
  if isinstance(f.type, type) and f.name not in ('env', 'host')
}
NAMED: dict[str, type] = {
  'service': ServiceConfig,
  'role': TrainedRoleConfig,
  'reading': ReadingConfig,
  'mix': SourceConfig,
  'stage': StageConfig,
  'select': SelectConfig,
}
VALUES: dict[str, Field] = {
  'stream': Field((), Tuple(Name('a link')), 'links of a stream, in order'),
  'loss_aggregation': Field(
    'token_mean', Name(), 'how a loss term is averaged'
  ),
  'coef': Field(1.0, Real(), 'weight of a stream or a loss term'),
}
# What a config fills; each is there, if empty.
OPEN = ('host', *NAMED, *VALUES, 'schedule', 'hp')


def trained(c: Config) -> dict[str, TrainedRoleConfig]:
  """Returns the roles that are trained, by name."""
  roles = {name: r for name, r in c.role.items() if r.kind == 'train'}
  return cast('dict[str, TrainedRoleConfig]', roles)


def to_dict(x: Any) -> Any:
  """Returns a config or a part of it as plain nested dicts."""
  if isinstance(x, FamilyConfig):
    tasks = {f.name: getattr(x, f.name) for f in dataclasses.fields(EnvConfig)}
    return tasks | dict(x.settings)
  if dataclasses.is_dataclass(x):
    out = {f.name: to_dict(getattr(x, f.name)) for f in dataclasses.fields(x)}
    if isinstance(x, Config) and not isinstance(x.env, FamilyConfig):
      out['host'] = {}  # nothing reads it
    return out
  if isinstance(x, Mapping | ConfigDict):
    return {name: to_dict(value) for name, value in x.items()}
  return x


def declared() -> dict[str, Field]:
  """Returns every field by its path; '*' is a name of a config's own choice.

  Leaves out c.env, whose fields follow from its name, and c.hp.
  """
  fields = dict(domain.fields(Config))
  named = {f'{section}.*': cls for section, cls in NAMED.items()}
  for at, cls in (FIXED | {'host': HostConfig} | named).items():
    fields |= {f'{at}.{name}': x for name, x in domain.fields(cls).items()}
  return fields | {f'{section}.*': field for section, field in VALUES.items()}
