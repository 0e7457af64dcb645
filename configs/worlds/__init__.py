"""What an environment brings to a config: its settings, and what fits it.

Those inside jit are listed here; of the others (agentrl/env/host.py) any
family can be named, also by 'module:Class', and some have sizes of their own.
"""

from typing import Any

from ml_collections import ConfigDict

from agentrl.env import host, judged

JITTED = ('sokoban', 'frozen_lake', 'bifurcation')

# What each environment tells of its turns, beside their reward.
TERMS = {
  'sokoban': ('progress',),
  'frozen_lake': ('progress',),
  'bifurcation': ('progress', 'truth', 'decisive'),
}

# Host environments hold text: turns are longer, and what was said matters.
# c.host is theirs: tokens of an observation; how many trajectories are under
# way (0: rollout.slots); tokens written between two looks at the world, read at
# a time, and by how many slots beside those that write; seconds for a turn of
# an environment, for its reset, and for a trajectory; where environments live
# ('': as the family says); texts that end a message.
HOST = {
  'micro': 32,
  'rollout': dict(history='full', message=48, turns=6),
  'host': dict(heard=96, sessions=0, burst=8, chunk=128, lanes=4, seconds=60.0,
               start=600.0, patience=3600.0, place='', stop=()),
}  # fmt: skip
# Some, at a size that two CPU cores train in minutes.
OWN: dict[str, dict[str, Any]] = {
  'countdown': {
    'rollout': dict(message=32, turns=3),
    'host': dict(heard=20),
    'env': dict(numbers=2, largest=30, train=800),
  },
  'interview': {
    'rollout': dict(message=24, turns=5),
    'host': dict(heard=32),
    'env': dict(train=4000),
    'service': {'user': dict(function='agentrl.env.interview:truthful')},
  },
  'sql_questions': {
    'rollout': dict(message=60, turns=2),
    'host': dict(heard=104, sessions=16),
    'env': dict(kinds='count sum', train=2000),
  },
  'textworld_coin': {
    'rollout': dict(history='turn', message=11, turns=12),
    'host': dict(heard=24, sessions=8),  # a process of 100 MB each
    'env': dict(rules=False, high=106, train=1000),
  },
}


def settings(name: str) -> ConfigDict:
  """c.env: the environment's settings, and how many tasks there are."""
  sizes = dict(train=500, test=200, seed=0)
  if name == 'frozen_lake':
    own = dict(height=4, width=4, slip=False, invalid=0.1)
  elif name == 'bifurcation':
    own = dict(length=5, choices=4, slip=0.0, filler=4, invalid=0.1)
  elif name == 'sokoban':
    own = dict(height=6, width=6, boxes=1, min_moves=3, max_moves=6,
               reward='dense', coordinates=True, levels='')  # fmt: skip
    sizes.update(train=2000, test=500)
  else:
    own = host.settings(host.find(name))
  return ConfigDict(dict(name=name, **own, **sizes))


def fit(c: ConfigDict) -> None:
  """Sizes that fit the environment of c.env."""
  if c.env.name in JITTED:
    return
  for changes in (HOST, OWN.get(c.env.name, {})):
    c.update(changes)


def known(name: str) -> None:
  """Raises ValueError where there is no such environment."""
  if ':' not in name and name not in (*JITTED, *host.FAMILIES):
    raise ValueError(
      f'env.name={name!r} is unknown; choose'
      f' {", ".join(map(repr, (*JITTED, *host.FAMILIES)))}, or name a family of'
      " your own as 'module:Class'"
    )


def family(c: ConfigDict) -> host.Family:
  """That of c.env, with a judge where c.service has one to spare."""
  found = host.of(c.env.to_dict())
  spare = 'judge' in c.service and 'judge' not in host.needs(found)
  return judged.Judged(found) if spare else found


def needs(c: ConfigDict) -> tuple[str, ...]:
  """The services that the environment of c.env asks."""
  if c.env.name in JITTED:
    return ()
  return host.needs(host.of(c.env.to_dict()))


def terms(c: ConfigDict) -> tuple[str, ...]:
  """What turns tell of themselves, beside what every record has."""
  if c.env.name in JITTED:
    return TERMS[c.env.name]
  known(c.env.name)
  return tuple(family(c).columns)
