"""Sections of the environment: its settings, and the engine of host ones.

All but three environments have a family (`agentrl/env/base.py`), which declares
their settings.
"""

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any

from agentrl.domain import (
  Chance,
  Count,
  Count0,
  Flag,
  OneOf,
  Path,
  Positive,
  Real,
  Seed,
  Text,
  Tuple,
  Whole,
)
from agentrl.env import base as env_base
from agentrl.env.jit import bifurcation

Side = Annotated[int, Whole(1, 64)]
Cells = Annotated[int, Whole(3, 64)]


@dataclasses.dataclass(frozen=True)
class HostConfig:
  """Host environments and their engine."""

  max_observation_tokens: Annotated[Count, 'most tokens of an observation'] = 96
  num_envs: Annotated[Count0, 'trajectories under way; 0: rollout.slots'] = 0
  decode_steps_per_sync: Annotated[
    Count, 'tokens decoded between polls of environments'
  ] = 8
  prefill_chunk: Annotated[Count, 'tokens prefilled at a time'] = 128
  prefill_slots: Annotated[Count, 'slots that prefill while others decode'] = 4
  step_timeout: Annotated[Positive, 'seconds per turn'] = 60.0
  reset_timeout: Annotated[Positive, 'seconds per reset'] = 600.0
  episode_timeout: Annotated[Positive, 'seconds per trajectory'] = 3600.0
  worker: Annotated[
    str,
    OneOf('', *env_base.WORKERS, *env_base.CLUSTERS),
    "where environments run; '': where their family says",
  ] = ''
  cluster: Annotated[
    str,
    Text('an address'),
    "of the cluster in host.worker; '': its package's default, or started here",
  ] = ''
  callback: Annotated[
    str,
    Text('an address'),
    "of this machine, as the cluster reaches it; '': as it reaches the cluster",
  ] = ''
  stop_strings: Annotated[
    tuple[str, ...], Tuple(Text(empty=False)), 'strings that end a message'
  ] = ()
  generator: Annotated[
    str,
    Text('an address'),
    "server that generates: 'http://HOST:PORT'; '': this process",
  ] = ''
  generator_kind: Annotated[
    str, OneOf('agentrl', 'vllm', 'sglang'), 'protocol of that server'
  ] = 'agentrl'
  generator_model: Annotated[str, Text('a name'), 'name of its model'] = ''
  generator_key_env: Annotated[
    str, Text('a name'), "environment variable of its key; '': none"
  ] = ''
  generator_folder: Annotated[
    str, Text('a folder'), 'folder for new weights that the server can read'
  ] = ''


@dataclasses.dataclass(frozen=True)
class EnvConfig:
  """Environment, and how many tasks of it there are."""

  name: Annotated[str, Text(empty=False), 'environment'] = 'sokoban'
  train: Annotated[Count, 'training tasks'] = 500
  test: Annotated[Count, 'held-out tasks'] = 200
  seed: Annotated[Seed, 'random seed of the tasks'] = 0


@dataclasses.dataclass(frozen=True)
class FamilyConfig(EnvConfig):
  """Environment of a family, which declares the settings."""

  settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)


Oracle = Annotated[
  str,
  OneOf('', 'plan', 'silent'),
  "last line of observations: a planner's next move, or empty; '': no line",
]
Invalid = Annotated[float, Real(0), 'cost of a message that is not understood']


@dataclasses.dataclass(frozen=True)
class SokobanConfig(EnvConfig):
  """Sokoban: push every box onto a target."""

  train: Annotated[Count, 'training tasks'] = 2000
  test: Annotated[Count, 'held-out tasks'] = 500
  height: Annotated[Cells, 'rows of cells, walls included'] = 6
  width: Annotated[Cells, 'columns of cells, walls included'] = 6
  boxes: Annotated[Side, 'boxes, and targets'] = 1
  min_moves: Annotated[
    int, Whole(1, most='max_moves'), 'fewest moves of a shortest solution'
  ] = 3
  max_moves: Annotated[Count, 'most moves of a shortest solution'] = 6
  reward: Annotated[
    str, OneOf('dense', 'sparse'), 'reward per box, or for all boxes only'
  ] = 'dense'
  coordinates: Annotated[
    bool, Flag(), 'observations list coordinates as well'
  ] = True
  oracle: Oracle = ''
  levels: Annotated[str, Path(), "level file; '': generated levels"] = ''


@dataclasses.dataclass(frozen=True)
class FrozenLakeConfig(EnvConfig):
  """FrozenLake: reach the goal, keep off the holes."""

  name: Annotated[str, Text(empty=False), 'environment'] = 'frozen_lake'
  height: Annotated[Side, 'rows of cells'] = 4
  width: Annotated[Side, 'columns of cells'] = 4
  slip: Annotated[bool, Flag(), 'only a third of the moves go as chosen'] = (
    False
  )
  oracle: Oracle = ''
  invalid: Invalid = 0.1


@dataclasses.dataclass(frozen=True)
class BifurcationConfig(EnvConfig):
  """Bifurcation: one turn decides."""

  name: Annotated[str, Text(empty=False), 'environment'] = 'bifurcation'
  length: Annotated[Count, 'turns of every trajectory'] = 5
  choices: Annotated[
    int, Whole(2, len(bifurcation.WORDS)), 'actions per turn'
  ] = 4
  slip: Annotated[
    Chance, 'probability that the decisive choice is replaced'
  ] = 0.0
  filler: Annotated[int, Whole(0, 1024), 'letters that name a task'] = 4
  invalid: Invalid = 0.1


JITTED: dict[str, type[EnvConfig]] = {
  'sokoban': SokobanConfig,
  'frozen_lake': FrozenLakeConfig,
  'bifurcation': BifurcationConfig,
}
