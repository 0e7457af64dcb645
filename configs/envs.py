"""Settings that an environment brings to a config, and sizes that fit it.

Those inside jit are listed here; of the others (agentrl/env/base.py) any
family can be named, also by 'module:Class', and some have sizes of their own.
"""

from typing import Any

from ml_collections import ConfigDict

from agentrl import domain, registry
from agentrl.domain import COUNT, COUNT0, SEED, UNIT, Field, Flag, OneOf, Whole
from agentrl.env import base, judge
from agentrl.env.jit import bifurcation

JITTED = ('sokoban', 'frozen_lake', 'bifurcation')

# c.env. Fields of host environments are those of their family, which declares
# the domain of each as an `Annotated` type; its comment says what it means.
TASKS: dict[str, Field] = {
  'name': Field('sokoban', domain.Text(empty=False), 'which environment'),
  'train': Field(500, COUNT, 'tasks that are trained on'),
  'test': Field(200, COUNT, 'tasks that are held out'),
  'seed': Field(0, SEED, 'of the tasks'),
}
_SIDE = Whole(1, 64)
_ORACLE = Field(
  '',
  OneOf('', 'plan', 'silent'),
  "last line of observations: a planner's next move, or none; '': no line",
)
ENV: dict[str, dict[str, Field]] = {
  'sokoban': {
    'height': Field(6, Whole(3, 64), 'cells, walls around them included'),
    'width': Field(6, Whole(3, 64), 'cells, walls around them included'),
    'boxes': Field(1, Whole(1, 64), 'boxes, and as many targets'),
    'min_moves': Field(3, Whole(1, most='max_moves'), 'of a shortest solution'),
    'max_moves': Field(6, COUNT, 'moves of a shortest solution'),
    'reward': Field('dense', OneOf('dense', 'sparse'), 'boxes count, or all'),
    'coordinates': Field(True, Flag(), 'observations say where things are'),
    'oracle': _ORACLE,
    'levels': Field('', domain.Path(), "file of levels; '': generated"),
    'train': Field(2000, COUNT, 'tasks that are trained on'),
    'test': Field(500, COUNT, 'tasks that are held out'),
  },
  'frozen_lake': {
    'height': Field(4, _SIDE, 'cells'),
    'width': Field(4, _SIDE, 'cells'),
    'slip': Field(False, Flag(), 'only a third of the moves go as chosen'),
    'oracle': _ORACLE,
    'invalid': Field(0.1, domain.Real(0), 'cost of an unparsed message'),
  },
  'bifurcation': {
    'length': Field(5, COUNT, 'turns of every trajectory'),
    'choices': Field(4, Whole(2, len(bifurcation.WORDS)), 'actions of a turn'),
    'slip': Field(0.0, UNIT, 'chance that the decisive choice is replaced'),
    'filler': Field(4, Whole(0, 1024), 'letters that name a task'),
    'invalid': Field(0.1, domain.Real(0), 'cost of an unparsed message'),
  },
}

# Terms of turns that each environment gives beside the reward.
TERMS = {
  'sokoban': ('progress',),
  'frozen_lake': ('progress',),
  'bifurcation': ('progress', 'truth', 'decisive'),
}

# c.host, which host environments have.
HOST: dict[str, Field] = {
  'max_observation_tokens': Field(
    96, COUNT, 'tokens of an observation, at most'
  ),
  'num_envs': Field(0, COUNT0, 'trajectories under way; 0: rollout.slots'),
  'decode_steps_per_sync': Field(
    8, COUNT, 'tokens decoded between two polls of environments'
  ),
  'prefill_chunk': Field(128, COUNT, 'tokens prefilled at a time'),
  'prefill_slots': Field(4, COUNT, 'slots that prefill while others decode'),
  'step_timeout': Field(60.0, domain.POSITIVE, 'seconds for a turn'),
  'reset_timeout': Field(600.0, domain.POSITIVE, 'seconds for a reset'),
  'episode_timeout': Field(3600.0, domain.POSITIVE, 'seconds for a trajectory'),
  'worker': Field(
    '', OneOf('', *base.WORKERS), "where environments run; '': by family"
  ),
  'stop_strings': Field(
    (), domain.Tuple(domain.Text(empty=False)), 'texts that end a message'
  ),
  'generator': Field(
    '',
    domain.Text('an address'),
    "of a server that generates: 'http://HOST:PORT'; '': this process",
  ),
  'generator_kind': Field(
    'agentrl', OneOf('agentrl', 'vllm', 'sglang'), 'how that server is asked'
  ),
  'generator_model': Field('', domain.Text('a name'), 'of its model'),
  'generator_key_env': Field(
    '', domain.Text('a name'), "environment variable of its key; '': none"
  ),
  'generator_folder': Field(
    '', domain.Text('a folder'), 'of weights, which that server can read'
  ),
}
# They hold text: turns are longer, and what was said matters.
LONGER: dict[str, Any] = {
  'micro_batch': 32,
  'rollout': dict(history='full', max_message_tokens=48, max_turns=6),
  'host': {name: field.default for name, field in HOST.items()},
}
# Some, at a size that two CPU cores train in minutes.
OWN: dict[str, dict[str, Any]] = {
  'consultation': {
    'rollout': dict(max_message_tokens=20, max_turns=6),
    'host': dict(max_observation_tokens=28),
    'env': dict(train=4000),
    'service': {
      'user': dict(function='agentrl.env.worlds.consultation:scripted')
    },
  },
  'countdown': {
    'rollout': dict(max_message_tokens=32, max_turns=3),
    'host': dict(max_observation_tokens=24),  # a result of three digits
    'env': dict(numbers=2, largest=30, train=800),
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
  'in_context_regression': {
    'rollout': dict(max_message_tokens=6, max_turns=1),
    'host': dict(max_observation_tokens=40),
    'env': dict(train=4000),
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
  'mcp': {
    'rollout': dict(max_message_tokens=96, max_turns=6),
    'host': dict(max_observation_tokens=512, num_envs=8),
    'env': dict(train=1_000_000, test=1000),  # or as many as the files have
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
  'recommendation': {
    'rollout': dict(max_message_tokens=12, max_turns=6),
    'host': dict(max_observation_tokens=56),
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
  'unreliable_tools': {
    'rollout': dict(max_message_tokens=50, max_turns=4),
    'host': dict(max_observation_tokens=40),
    'env': dict(size=2, largest=30, demonstrate='every', train=800),
  },
  'verifiers': {
    'rollout': dict(max_message_tokens=32, max_turns=4),
    'host': dict(max_observation_tokens=64),
  },
}


def settings(name: str) -> ConfigDict:
  """c.env: the environment's settings, and how many tasks there are."""
  if name not in ENV:
    own = base.settings(base.find(name))
  else:
    own = {field: x.default for field, x in ENV[name].items()}
  sizes = {field: x.default for field, x in TASKS.items()}
  return ConfigDict(sizes | own | {'name': name})


def declared(c: ConfigDict) -> dict[str, Field]:
  """Returns the declarations of the fields of c.env, by name."""
  check_name(c.env.name)
  if c.env.name in ENV:
    return TASKS | ENV[c.env.name]
  family = base.find(c.env.name)
  domains, meanings = domain.declared(family), domain.comments(family)
  return TASKS | {
    name: Field(x, domains.get(name) or domain.like(x), meanings.get(name, ''))
    for name, x in base.settings(family).items()
  }


def fit(c: ConfigDict) -> None:
  """Sizes that fit the environment of c.env."""
  if c.env.name in JITTED:
    return
  for changes in (LONGER, OWN.get(c.env.name, {})):
    c.update(changes)


def check_name(name: str) -> None:
  """Raises ValueError where there is no such environment."""
  domain.Name('an environment').check('env.name', name)
  names = (*JITTED, *base.FAMILIES)
  if ':' not in name and name not in names:
    raise ValueError(
      f'env.name={name!r} is unknown{domain.suggest(name, names)}; choose'
      f' {", ".join(map(repr, names))}, or name a family of your own as'
      " 'module:Class'"
    )


def _of(c: ConfigDict) -> base.EnvFamily:
  """The family of c.env. Raises ValueError for a field outside its domain.

  What a family does with its settings is written for those in their domains.
  """
  values = c.env.to_dict()
  for name, field in declared(c).items():
    if name in values and field.domain:
      field.domain.check(f'env.{name}', values[name], values)
  return base.of(values)


def family(c: ConfigDict) -> base.EnvFamily:
  """The family of c.env, with a judge if c.service has a spare one."""
  env_family = _of(c)
  taken = {*base.needs(env_family), *judge_services(c)}
  spare = 'judge' in c.service and 'judge' not in taken
  return judge.WithJudge(env_family) if spare else env_family


def judge_services(c: ConfigDict) -> tuple[str, ...]:
  """The services that the judges of c.judge ask."""
  hp = c.hp.to_dict().get('judge', {})
  services = []
  for name in c.judge:
    piece = registry.get('judge', name, 'c.judge')
    values = registry.settings(piece, hp.get(name, {}), 'c.judge')
    services += [values['service']] if 'service' in values else []
  return tuple(dict.fromkeys(services))


def needs(c: ConfigDict) -> tuple[str, ...]:
  """The services that the environment of c.env asks."""
  if c.env.name in JITTED:
    return ()
  return base.needs(_of(c))


def terms(c: ConfigDict) -> tuple[str, ...]:
  """Reward terms of turns, beside those that every record has."""
  if c.env.name in JITTED:
    return TERMS[c.env.name]
  check_name(c.env.name)
  return tuple(family(c).columns)


def spans(c: ConfigDict) -> tuple[str, ...]:
  """Parts of a message that the environment tells apart, see types.Span.

  Beside those that every rollout of its kind marks.
  """
  if c.env.name in JITTED:
    return ()
  calls = isinstance(_of(c), base.MarksCalls)
  return ('call', 'argument') if calls else ()
