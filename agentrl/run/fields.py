"""The declared fields of a config: what each may hold, checked in one place.

configs/base.py and configs/envs.py declare the fields, a piece its
hyper-parameters, a family of environments its settings.
"""

from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from agentrl import domain, registry
from agentrl.configs import base, envs
from agentrl.domain import Domain, Field


def flat(tree: ConfigDict, prefix: str = '') -> dict[str, Any]:
  """Nested names as dotted paths."""
  out = {}
  for name, x in tree.items():
    if isinstance(x, ConfigDict):
      out |= flat(x, f'{prefix}{name}.')
    else:
      out[prefix + name] = x
  return out


def check(c: ConfigDict) -> None:
  """Raises ValueError, one sentence, for a field or a value that cannot be.

  Hyper-parameters are checked with the pieces that have them, by the registry.
  """
  _check_sections(c)
  values = flat(c)
  domain.Text(empty=False).check('env.name', values.get('env.name'))
  fields = declared(c)
  for path in fields:
    if path not in values:
      raise ValueError(
        f'{path} is missing in this config; begin with base.get_config(), which'
        ' has it'
      )
  sections: dict[str, dict[str, Any]] = {}
  for path, value in values.items():
    section, _, name = path.rpartition('.')
    sections.setdefault(section, {})[name] = value
  for path, value in values.items():
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


def declared(c: ConfigDict) -> dict[str, Field]:
  """What is declared of every field that a config has or must have, by path.

  Raises ValueError for an environment that is none.
  """
  fields = dict(base.FIELDS)
  fields |= {f'env.{name}': x for name, x in envs.declared(c).items()}
  if c.get('rollout_kind') == 'host':
    fields |= {f'host.{name}': x for name, x in envs.HOST.items()}
  for name, role in c.role.items():
    train = isinstance(role, ConfigDict) and role.get('kind') == 'train'
    own = base.ROLE | base.TRAINED if train else base.ROLE
    fields |= {f'role.{name}.{x}': own[x] for x in own}
  for name in c.service:
    fields |= {f'service.{name}.{x}': f for x, f in base.SERVICE.items()}
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


def _check_sections(c: ConfigDict) -> None:
  """What holds fields is there, and is no value."""
  if not isinstance(c, ConfigDict):
    raise ValueError(
      f'a config is a ConfigDict and not {type(c).__name__}; begin with'
      ' base.get_config()'
    )
  paths = {path.rpartition('.')[0] for path in base.FIELDS} - {''}
  for name in (*sorted(paths), 'env', *base.SECTIONS):
    if not isinstance(c.get(name), ConfigDict):
      raise ValueError(
        f'{name}={c.get(name)!r} is no section of a config; begin with'
        ' base.get_config(), which has it'
      )


def _open(path: str) -> Field | None:
  """What is declared of a name of the config's own choice, the second part."""
  section, _, rest = path.partition('.')
  _, dot, last = rest.partition('.')
  return base.OPEN.get(path) or base.OPEN.get(f'{section}.*{dot}{last}')


def _matches(pattern: str, path: str) -> bool:
  """Whether the names of a path are those of a pattern; '*' is any."""
  there, here = pattern.split('.'), path.split('.')
  return len(there) == len(here) and all(
    x in ('*', y) for x, y in zip(there, here, strict=True)
  )


def _undeclared(path: str, value: Any, fields: Mapping[str, Field]) -> str:
  section = path.rpartition('.')[0]
  places = [x.rpartition('.') for x in (*fields, *base.OPEN)]
  names = sorted({x for there, _, x in places if _matches(there, section)})
  has = f'{section or "it"} has {", ".join(names) or "no field of a value"}'
  return f'{path}={value!r} is no field of this config; {has}'


def listed(c: ConfigDict) -> str:
  """The fields of a config as flags, a line each, for --help."""
  values, known = flat(c), declared(c)
  lines = ['; its fields are flags too:']
  for path, value in sorted(values.items()):
    if path.startswith('hp.'):
      of, meaning = domain_of(c, path), ''
    elif path in known:
      _, of, meaning = known[path]
    else:
      continue
    text = '; '.join(filter(None, (of.explain() if of else '', meaning)))
    lines.append(f'--config.{path}={value!r}: {text}')
  return '\n'.join(lines)
