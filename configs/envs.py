"""Settings that an environment brings to a config, and sizes that fit it.

Settings of three inside jit are in `env_sections`; of the others
(agentrl/env/base.py) any family can be named, also by 'module:Class', and some
have sizes of their own here.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from agentrl import domain, registry
from agentrl.configs import config, env_sections
from agentrl.domain import Field
from agentrl.env import base, goals, judge, proposals, seats, skills
from agentrl.env.jit import base as jit_base
from agentrl.rollout import edits
from agentrl.rollout.compaction import SUMMARY

JITTED = tuple(env_sections.JITTED)

# Terms of turns that each environment gives beside the reward.
TERMS = {
  'sokoban': ('progress',),
  'frozen_lake': ('progress',),
  'bifurcation': ('progress', 'truth', 'decisive'),
}

# They hold text: turns are longer, and what was said matters.
LONGER: dict[str, Any] = {
  'micro_batch': 32,
  'rollout': dict(history='full', max_message_tokens=48, max_turns=6),
  'host': dataclasses.asdict(env_sections.HostConfig()),
}
# Some, at a size that two CPU cores train in minutes.
OWN: dict[str, dict[str, Any]] = {
  'baskets': {
    'micro_batch': 32,
    'rollout': dict(history='full', max_message_tokens=4, max_turns=3),
    'env': dict(train=2000),
  },
  'bug_fixes': {
    'rollout': dict(max_message_tokens=8, max_turns=8),
    'host': dict(max_observation_tokens=32),  # eight files
    'env': dict(train=4000),
  },
  'case_corpus': {
    'rollout': dict(max_message_tokens=64, max_turns=5),
    'host': dict(max_observation_tokens=136),
    'env': dict(train=2000),
  },
  'carried_code': {
    'rollout': dict(history='full', max_message_tokens=4),
    'env': dict(train=4000),
  },
  'commons': {
    'rollout': dict(max_message_tokens=2, max_turns=4),
    'host': dict(max_observation_tokens=64),
    'env': dict(train=3000),
  },
  # Numbered matches: every deal comes equally often, in each seat.
  'connect_four': {'rollout': dict(max_turns=21)},
  'consultation': {
    'rollout': dict(max_message_tokens=20, max_turns=6),
    'host': dict(max_observation_tokens=28),
    'env': dict(train=4000),
    'service': {
      'user': dict(function='agentrl.env.worlds.consultation:scripted')
    },
  },
  'coopetition': {
    'micro_batch': 32,  # one turn of each of sft.batch
    'rollout': dict(max_turns=1),
    'env': dict(train=540, test=54),
  },
  'countdown': {
    'rollout': dict(max_message_tokens=32, max_turns=3),
    'host': dict(max_observation_tokens=24),  # a result of three digits
    'env': dict(numbers=2, largest=30, train=800),
  },
  'critiques': {
    'rollout': dict(max_message_tokens=20, max_turns=1),
    'host': dict(max_observation_tokens=64),
    'env': dict(train=8000),
  },
  'door_codes': {
    'rollout': dict(max_message_tokens=2, max_turns=1),
    'host': dict(max_observation_tokens=32),
    'env': dict(train=1000),
  },
  'errands': {
    'rollout': dict(max_message_tokens=8, max_turns=8),
    'host': dict(max_observation_tokens=12),
    'env': dict(train=4000),
  },
  'event_stream': {
    'rollout': dict(max_message_tokens=12, max_turns=6),
    'host': dict(max_observation_tokens=12),
    'env': dict(train=2000),
  },
  'fact_corpus': {
    'rollout': dict(max_message_tokens=44, max_turns=4),
    'host': dict(max_observation_tokens=48),
    'env': dict(people=400, train=2000),
  },
  'gymnasium_text': {
    'rollout': dict(max_message_tokens=24, max_turns=6),
    'host': dict(max_observation_tokens=96, num_envs=8),
  },
  'hidden_slots': {
    'rollout': dict(max_message_tokens=33, max_turns=6),
    'host': dict(max_observation_tokens=36),
    'env': dict(kinds=3, train=1500),
    'service': {
      'user': dict(function='agentrl.env.worlds.hidden_slots:scripted')
    },
  },
  'household': {
    'rollout': dict(max_message_tokens=12, max_turns=8),
    'host': dict(max_observation_tokens=112),
    'env': dict(train=1500),
  },
  'in_context_regression': {
    'rollout': dict(max_message_tokens=6, max_turns=1),
    'host': dict(max_observation_tokens=40),
    'env': dict(train=4000),
  },
  'injected_errors': {
    'rollout': dict(max_message_tokens=14, max_turns=1),
    'host': dict(max_observation_tokens=88),
    'env': dict(train=8000),
  },
  'interview': {
    'rollout': dict(max_message_tokens=24, max_turns=5),
    'host': dict(max_observation_tokens=32),
    'env': dict(train=4000),
    'service': {'user': dict(function='agentrl.env.worlds.interview:truthful')},
  },
  'itinerary': {
    'rollout': dict(max_message_tokens=8, max_turns=1),
    'host': dict(max_observation_tokens=160),
    'env': dict(train=2000),
  },
  'jsonl': {
    'rollout': dict(max_message_tokens=256, max_turns=1),
    'host': dict(max_observation_tokens=512),
    'env': dict(train=1_000_000, test=1000),  # or as many as the files have
  },
  'kuhn_poker': {
    'rollout': dict(max_turns=2),
    'env': dict(train=600, test=60),
  },
  'leduc_poker': {
    'rollout': dict(max_turns=4),
    'env': dict(train=1200, test=240),
  },
  'lookups': {
    'rollout': dict(max_message_tokens=34, max_turns=8),
    'host': dict(max_observation_tokens=76),
    'env': dict(train=4000),
  },
  'mcp': {
    'rollout': dict(max_message_tokens=96, max_turns=6),
    'host': dict(max_observation_tokens=512, num_envs=8),
    'env': dict(train=1_000_000, test=1000),  # or as many as the files have
  },
  'negotiation': {
    'rollout': dict(max_message_tokens=16, max_turns=3),
    'host': dict(max_observation_tokens=48),
    'env': dict(train=4000),
  },
  'norms': {
    'rollout': dict(max_message_tokens=6, max_turns=12),
    'host': dict(max_observation_tokens=80),
    'env': dict(train=3000),
  },
  'openenv': {
    'rollout': dict(max_message_tokens=32, max_turns=6),
    'host': dict(max_observation_tokens=96),
  },
  'pettingzoo': {
    'rollout': dict(max_message_tokens=16, max_turns=6),
    'host': dict(max_observation_tokens=128, num_envs=8),
  },
  'program': {
    'rollout': dict(max_message_tokens=32, max_turns=4),
    'host': dict(max_observation_tokens=48),
  },
  'pioneer_observer': {
    'micro_batch': 32,  # one turn of each of sft.batch
    'rollout': dict(max_turns=1),
    'env': dict(train=600, test=150),
  },
  'proposed_chores': {
    'rollout': dict(max_message_tokens=12, max_turns=8),
    'host': dict(max_observation_tokens=128),
    'env': dict(train=1500),
    'service': {
      'proposer': dict(function='agentrl.env.worlds.proposed_chores:propose')
    },
  },
  'proposed_countdown': {
    'rollout': dict(max_message_tokens=32, max_turns=3),
    'host': dict(max_observation_tokens=32),
    'env': dict(numbers=2, largest=30, train=800),
  },
  'proposed_facts': {
    'rollout': dict(max_message_tokens=44, max_turns=4),
    'host': dict(max_observation_tokens=48),
    'env': dict(people=400, train=2000),
  },
  'recommendation': {
    'rollout': dict(max_message_tokens=12, max_turns=6),
    'host': dict(max_observation_tokens=56),
    'env': dict(train=4000),
  },
  'reflections': {
    'rollout': dict(history='turn', max_message_tokens=3, max_turns=3),
    'host': dict(max_observation_tokens=32),
    'env': dict(train=1000),
  },
  'sessions': {
    # Notes are what it remembers.
    'rollout': dict(history='turn', max_message_tokens=32, max_turns=10),
    'host': dict(max_observation_tokens=76),
    'env': dict(train=4000),
  },
  'shop': {
    'rollout': dict(max_message_tokens=32, max_turns=5),
    'host': dict(max_observation_tokens=136),
    'env': dict(page=2, products=24, train=2000),
  },
  'shop_logs': {
    'rollout': dict(max_message_tokens=40, max_turns=1),
    'host': dict(max_observation_tokens=168),
    'env': dict(page=2, history=1, train=4000),
  },
  'solver_verifier': {
    'rollout': dict(max_turns=2),
    'env': dict(train=600, test=150),
  },
  'sql_questions': {
    'rollout': dict(max_message_tokens=60, max_turns=2),
    'host': dict(max_observation_tokens=104, num_envs=16),
    'env': dict(kinds='count sum', train=2000),
  },
  'table_questions': {
    'rollout': dict(max_message_tokens=60, max_turns=2),
    'host': dict(max_observation_tokens=104, num_envs=16),
    'env': dict(kinds='count sum', train=2000),
  },
  'textworld_coin': {
    'rollout': dict(history='turn', max_message_tokens=11, max_turns=12),
    # A process of 100 MB each.
    'host': dict(max_observation_tokens=24, num_envs=8),
    'env': dict(rules=False, high=106, train=1000),
  },
  'tic_tac_toe': {'rollout': dict(max_turns=5)},
  'unreliable_tools': {
    'rollout': dict(max_message_tokens=50, max_turns=4),
    'host': dict(max_observation_tokens=40),
    'env': dict(size=2, largest=30, demonstrate='every', train=800),
  },
  'verifiers': {
    'rollout': dict(max_message_tokens=32, max_turns=4),
    'host': dict(max_observation_tokens=64),
  },
  'workflow': {
    'micro_batch': 32,  # three turns of each of sft.batch
    'rollout': dict(max_turns=3),
    'env': dict(train=8000),
  },
}


def in_jit(name: str) -> bool:
  """Returns whether an environment is compiled with the policy.

  Raises:
    ValueError: a 'module:Class' that cannot be imported, or is no family.
  """
  if ':' not in name:
    return name in (*JITTED, *base.JIT_FAMILIES)
  family: Any = base.find(name)
  return family.worker == base.JIT


def settings(name: str) -> ConfigDict:
  """Returns c.env: the environment's settings, and how many tasks there are."""
  return ConfigDict(
    {field: x.default for field, x in declared(name).items()} | {'name': name}
  )


def declared(name: str) -> dict[str, Field]:
  """Returns the declarations of the fields of c.env, by name."""
  check_name(name)
  if name in env_sections.JITTED:
    return domain.fields(env_sections.JITTED[name])
  family = base.find(name)
  any_value = {
    field: Field(x, None, '') for field, x in base.settings(family).items()
  }
  tasks = domain.fields(env_sections.EnvConfig)
  return tasks | any_value | domain.fields(family)


def read(values: Mapping[str, Any]) -> env_sections.EnvConfig:
  """Returns c.env of plain values that fit it."""
  name = values['name']
  if name in env_sections.JITTED:
    return env_sections.JITTED[name](**values)
  tasks = {field: values[field] for field in base.SET}
  own = {field: x for field, x in values.items() if field not in base.SET}
  return env_sections.FamilyConfig(**tasks, settings=own)


def fit(c: ConfigDict) -> None:
  """Sets sizes that fit the environment of c.env."""
  if not in_jit(c.env.name):
    c.update(LONGER)
  c.update(OWN.get(c.env.name, {}))


def check_name(name: str) -> None:
  """Raises ValueError for an unknown environment."""
  domain.Name('an environment').check('env.name', name)
  names = (*JITTED, *base.JIT_FAMILIES, *base.FAMILIES)
  if ':' not in name and name not in names:
    raise ValueError(
      f'env.name={name!r} is unknown{domain.suggest(name, names)}; choose'
      f' {", ".join(map(repr, names))}, or name a family of your own as'
      " 'module:Class'"
    )


def of(c: ConfigDict | config.Config) -> base.EnvFamily:
  """Returns the family of c.env.

  What a family does with its settings is written for values in their domains.

  Raises:
    ValueError: a setting is outside its domain.
  """
  values = config.to_dict(c.env)
  domain.check_all(declared(c.env.name), values, 'env.{}'.format)
  return base.of(values)


def family(c: ConfigDict) -> base.EnvFamily:
  """Returns the family of c.env, with a judge if c.service has a spare one."""
  env_family = of(c)
  taken = {*base.needs(env_family), *component_services(c)}
  spare = 'judge' in c.service and 'judge' not in taken
  return judge.WithJudge(env_family) if spare else env_family


def described(c: ConfigDict) -> bool:
  """Tells if an agent's first sight of a task is known before it is played."""
  if in_jit(c.env.name):
    return True
  return isinstance(of(c), base.DescribesTasks)


def component_services(c: ConfigDict) -> tuple[str, ...]:
  """Returns the services that components of the config ask."""
  hp, services = config.to_dict(c.hp), []
  several = ('task', (c.task,)), ('judge', c.judge), ('memory', c.memory)
  for slot, named in several:
    for name in named:
      piece = registry.get(slot, name, f'c.{slot}')
      given = hp.get(slot, {}).get(name, {})
      values = registry.settings(piece, given, f'c.{slot}')
      services += [values['service']] if values.get('service') else []
  return tuple(dict.fromkeys(services))


def proposes(c: ConfigDict) -> bool:
  """Returns whether the tasks of c.env can be written by a policy."""
  return not in_jit(c.env.name) and isinstance(of(c), proposals.ProposesTasks)


def states_goals(c: ConfigDict) -> bool:
  """Returns whether goals of c.env can be written for what was done."""
  return not in_jit(c.env.name) and isinstance(family(c), goals.StatesGoals)


def skilled(c: ConfigDict) -> bool:
  """Returns whether the tasks of c.env say which skill each of them takes."""
  return not in_jit(c.env.name) and isinstance(of(c), skills.NamesSkills)


def needs(c: ConfigDict) -> tuple[str, ...]:
  """Returns the services that the environment of c.env asks."""
  if c.env.name in JITTED:
    return ()
  return base.needs(of(c))


def terms(c: ConfigDict) -> tuple[str, ...]:
  """Names reward terms of turns, beside those that every record has."""
  if c.env.name in JITTED:
    return (*TERMS[c.env.name], *marks(c))
  check_name(c.env.name)
  own = of(c) if in_jit(c.env.name) else family(c)
  return (*own.columns, *marks(c))


def marks(c: ConfigDict) -> tuple[str, ...]:
  """Lists the terms that tell how a history was shortened."""
  ways = {'compact': (SUMMARY,), 'edit': edits.TERMS}
  return ways.get(c.rollout.history, ())


def columns(c: ConfigDict) -> tuple[str, ...]:
  """Lists the columns an environment adds to every rollout's."""
  if c.env.name in JITTED:
    return ()
  family: Any = of(c)
  seated = bool(seats.names(family))
  if in_jit(c.env.name):
    seated = isinstance(family.env(), jit_base.SeatedEnv | jit_base.OneSeat)
  return ('agent', 'seat', 'match') if seated else ()


def same_seat(c: ConfigDict) -> tuple[str, ...]:
  """Names the ids of trajectories that compare: one group, and one seat."""
  return ('group', 'agent') if 'agent' in columns(c) else ('group',)


def spans(c: ConfigDict) -> tuple[str, ...]:
  """Names message parts that the environment tells apart, see types.Span.

  Beside those that every rollout of its kind marks.
  """
  if in_jit(c.env.name):
    return ()
  calls = isinstance(of(c), base.MarksCalls)
  return ('call', 'argument') if calls else ()
