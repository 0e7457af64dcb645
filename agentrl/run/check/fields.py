"""Config fields: what each may hold, declared and checked in one place.

configs/base.py and configs/envs.py declare the fields, a piece its
hyper-parameters, a family of environments its settings.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ml_collections import ConfigDict

from agentrl import domain, registry
from agentrl.configs import base, envs
from agentrl.domain import Domain, Field
from agentrl.rollout import registered


def flat(tree: ConfigDict, prefix: str = '') -> dict[str, Any]:
  """Nested names as dotted paths."""
  out = {}
  for name, x in tree.items():
    if isinstance(x, ConfigDict):
      out |= flat(x, f'{prefix}{name}.')
    else:
      out[prefix + name] = x
  return out


def _sections(tree: ConfigDict, prefix: str = '') -> Iterator[str]:
  """The dotted paths of all sections, empty ones too."""
  for name, x in tree.items():
    if isinstance(x, ConfigDict):
      yield prefix + name
      yield from _sections(x, f'{prefix}{name}.')


def check(c: ConfigDict) -> None:
  """Raises ValueError, one sentence, for a field or a value that cannot be.

  Hyper-parameters are checked with the pieces that have them, by the registry.
  """
  if not isinstance(c, ConfigDict):
    raise ValueError(
      f'a config is a ConfigDict and not {type(c).__name__}; begin with'
      ' base.get_config()'
    )
  values, fix = flat(c), '; begin with base.get_config(), which has it'
  if lacking := _lacking(c, values, base.FIELDS):
    raise ValueError(lacking + fix)
  domain.Text(empty=False).check('env.name', values.get('env.name'))
  fields = declared(c)
  if lacking := _lacking(c, values, fields):
    raise ValueError(lacking + fix)
  for path in _sections(c):  # one in place of a value may be empty
    if '.' in path and (field := _open(path)):
      field.domain.check(path, {})
  sections: dict[str, dict[str, Any]] = {}
  for path, value in values.items():
    section, _, name = path.rpartition('.')
    sections.setdefault(section, {})[name] = value
  for path, value in values.items():
    if path.startswith('stage.') and path not in fields:
      continue  # checked in the config of that stage
    if path.split('.')[0] not in ('hp', 'schedule'):
      if path not in fields:
        raise ValueError(_undeclared(path, value, fields))
      if of := fields[path].domain:
        of.check(path, value, sections[path.rpartition('.')[0]])
    elif path.startswith('hp.') and path.count('.') != 3:
      raise ValueError(
        f'{path}={value!r} is no hyper-parameter; they are named'
        ' hp.<scope>.<piece>.<name>'
      )


def check_names(c: ConfigDict) -> None:
  """Raises ValueError if a field is missing, or is not one of a config.

  Leaves out those of components, and of the environment, whose package may not
  be installed where a run is read.
  """
  values = flat(c)
  if lacking := _lacking(c, values, base.FIELDS):
    raise ValueError(lacking)
  fields = _declared(c)
  if lacking := _lacking(c, values, fields):
    raise ValueError(lacking)
  for path, value in values.items():
    elsewhere = path.split('.')[0] in ('env', 'hp', 'schedule', 'stage')
    if not elsewhere and path not in fields:
      raise ValueError(_undeclared(path, value, fields))


def _lacking(
  c: ConfigDict, values: Mapping[str, Any], fields: Mapping[str, Field]
) -> str:
  """Names the first section or field that a config lacks; '' if none."""
  paths = {path.rpartition('.')[0] for path in base.FIELDS} - {''}
  for name in (*sorted(paths), 'env', *base.SECTIONS):
    if not isinstance(c.get(name), ConfigDict):
      return f'{name}={c.get(name)!r} is not a section of a config'
  missing = [path for path in fields if path not in values]
  return f'{missing[0]} is missing in this config' if missing else ''


def declared(c: ConfigDict) -> dict[str, Field]:
  """Returns the declarations of all fields a config may or must have, by path.

  Raises ValueError for an environment that is none.
  """
  own = {f'env.{name}': x for name, x in envs.declared(c).items()}
  return own | _declared(c)


def _declared(c: ConfigDict) -> dict[str, Field]:
  """Returns the declarations of all fields but the environment's."""
  fields = dict(base.FIELDS)
  if registered.on_host(c.rollout.kind):
    fields |= {f'host.{name}': x for name, x in envs.HOST.items()}
  for name, role in c.role.items():
    train = isinstance(role, ConfigDict) and role.get('kind') == 'train'
    own = base.ROLE | base.TRAINED if train else base.ROLE
    fields |= {f'role.{name}.{x}': own[x] for x in own}
  for name in c.reading:
    fields |= {f'reading.{name}.{x}': f for x, f in base.READING.items()}
  for name in c.service:
    fields |= {f'service.{name}.{x}': f for x, f in base.SERVICE.items()}
  for section, own in (('mix', base.MIX), ('stage', base.STAGE)):
    for name in c[section]:
      fields |= {f'{section}.{name}.{x}': f for x, f in own.items()}
  for path in flat(c):
    if path not in fields and (field := _open(path)):
      fields[path] = field
  return fields


def domain_of(c: ConfigDict, path: str) -> Domain | None:
  """The domain of a field; None for a hyper-parameter that no piece has."""
  if not path.startswith('hp.'):
    return declared(c)[path].domain
  _, scope, name, field = path.split('.')
  for at, slot, piece in registry.parts(base.wiring(c)):
    if (at, piece) == (scope, name):
      return registry.get(slot, piece).domains.get(field)
  return None


def _open(path: str) -> Field | None:
  """Returns the declaration of a name of the config's own choice."""
  section, _, rest = path.partition('.')
  _, dot, last = rest.partition('.')
  return base.OPEN.get(path) or base.OPEN.get(f'{section}.*{dot}{last}')


def _matches(pattern: str, path: str) -> bool:
  """Returns whether the names of a path match a pattern; '*' is any."""
  names = re.escape(pattern).replace(r'\*', '[^.]*')
  return bool(re.fullmatch(names, path))


def _undeclared(path: str, value: Any, fields: Mapping[str, Field]) -> str:
  section = path.rpartition('.')[0]
  places = [x.rpartition('.') for x in (*fields, *base.OPEN)]
  names = sorted({x for there, _, x in places if _matches(there, section)})
  has = f'{section or "it"} has {", ".join(names) or "no field of a value"}'
  close = domain.suggest(path.rpartition('.')[2], names)
  return f'{path}={value!r} is no field of this config{close}; {has}'


def listed(c: ConfigDict) -> str:
  """The fields of a config as flags, a line each, for --help."""
  values, specs = flat(c), declared(c)
  lines = ['; its fields are flags too:']
  for path, value in sorted(values.items()):
    if path.startswith('hp.'):
      of, meaning = domain_of(c, path), ''
    elif path in specs:
      _, of, meaning = specs[path]
    elif path.startswith('stage.'):  # a field of c that differs there
      _, of, meaning = specs.get(path.split('.', 2)[2], (None, None, ''))
    else:
      continue
    text = '; '.join(filter(None, (of.explain() if of else '', meaning)))
    lines.append(f'--config.{path}={value!r}: {text}')
  return '\n'.join(lines)
