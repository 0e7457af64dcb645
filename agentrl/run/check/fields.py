"""Config fields: checks them, and reads a Config from them.

What a field may hold is declared beside it: in `configs.config`, by components
for their hyper-parameters and by families for their settings.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from flax import traverse_util

from agentrl import domain, registry
from agentrl.configs import base, config, envs
from agentrl.configs.config import Config
from agentrl.configs.env_sections import HostConfig
from agentrl.configs.sections import RoleConfig, TrainedRoleConfig
from agentrl.domain import Domain, Field
from agentrl.rollout import registered


class Section(NamedTuple):
  """Part of a config: its path, what it declares, and what it holds."""

  path: str
  fields: Mapping[str, Field]  # that it may have
  values: Any  # a dict, unless the config is malformed
  required: Collection[str]

  def at(self, name: str) -> str:
    return f'{self.path}.{name}' if self.path else name


def flat(tree: Any) -> dict[str, Any]:
  """Returns the values of nested dicts by dotted paths."""
  return traverse_util.flatten_dict(config.to_dict(tree), sep='.')


def read(c: Any) -> Config:
  """Checks every field and returns the Config.

  Fields of components are checked with the components, by the registry.

  Args:
    c: a ConfigDict; a Config is returned as it is
  Raises:
    ValueError: a field is missing, undeclared or outside its domain.
  """
  if isinstance(c, Config):
    return c
  values = _plain(c)
  _check_sections(values, '; begin with base.get_config(), which has it')
  domain.Text(empty=False).check('env.name', values['env'].get('name'))
  for section in (*_sections(values), *_env(values)):
    _check(section, '; begin with base.get_config(), which has it')
    domain.check_all(section.fields, section.values, section.at)
  for path, value in flat({'hp': values['hp']}).items():
    if path.count('.') != 3:
      raise ValueError(
        f'{path}={value!r} must be named hp.<scope>.<component>.<name>'
      )
  return _typed(values)


def changed(c: Any, changes: Mapping[str, Any]) -> Config:
  """Returns the Config with {path: value} changed, checked again.

  Raises:
    ValueError: a field is missing, undeclared or outside its domain.
  """
  values = config.to_dict(c)
  for path, value in changes.items():
    *sections, last = path.split('.')
    node = values
    for name in sections:
      node = node[name]
    node[last] = value
  return read(values)


def fill(c: Any) -> list[str]:
  """Adds in place what the config of an older version lacks: the defaults.

  The default of a new field keeps what runs did before there was the field.
  Leaves out settings of components and of the environment, whose packages may
  not be installed where a run is read.

  Args:
    c: a ConfigDict
  Returns:
    paths of the fields that were added
  Raises:
    ValueError: a section is malformed.
  """
  missing = {name: {} for name in config.FIXED if name not in c}
  _check_sections(_plain(c) | missing, '')
  for section in _sections(_plain(c) | missing):
    if isinstance(section.values, dict):
      lacks = [x for x in section.required if x not in section.values]
      missing |= {section.at(x): section.fields[x].default for x in lacks}
  for path, value in missing.items():
    *sections, last = path.split('.')
    node = c
    for name in sections:
      node = node[name]
    node[last] = value
  return [*missing]


def default_of(c: Any, path: str) -> Any:
  """Returns the default of a field of a config whose packages are here.

  Raises:
    KeyError: it has none.
  """
  if not path.startswith('hp.'):
    return declared(c)[path].default
  if field := _hyper_parameter(c, path):
    return field.default
  raise KeyError(path)


def check_names(c: Any) -> None:
  """Raises ValueError if a field is missing or undeclared.

  Leaves out fields of components, and of the environment, whose package may
  not be installed where a run is read.
  """
  values = _plain(c)
  _check_sections(values, '')
  for section in _sections(values):
    _check(section, '')
  stages = domain.fields(Config)['stages'].domain
  stages.check('stages', values['stages'])  # which readers walk


def declared(c: Any) -> dict[str, Field]:
  """Returns the declarations of all fields of a config, by path.

  Raises:
    ValueError: the environment is unknown.
  """
  values = _plain(c)
  return {
    section.at(name): field
    for section in (*_sections(values), *_env(values))
    for name, field in section.fields.items()
    if name in section.required or name in section.values
  }


def domain_of(c: Any, path: str) -> Domain | None:
  """Returns the domain of a field; None if no component has the field."""
  if not path.startswith('hp.'):
    return declared(c)[path].domain
  field = _hyper_parameter(c, path)
  return field and field.domain


def _hyper_parameter(c: Any, path: str) -> Field | None:
  """Returns the declaration of a field of c.hp; None if no component has it."""
  _, scope, name, field = path.split('.')
  for at, slot, component in registry.parts(base.wiring(c)):
    if (at, component) == (scope, name):
      piece = registry.get(slot, component)
      if field not in piece.defaults:
        return None
      of: Any = piece.domains.get(field)  # None: any value
      return Field(piece.defaults[field], of, piece.meanings[field])
  return None


def listed(c: Any) -> str:
  """Returns the fields of a config as flags, a line each, for --help."""
  values, specs = flat(c), declared(c)
  lines = ['; its fields are flags too:']
  for path, value in sorted(values.items()):
    if path.startswith('hp.'):
      _, of, meaning = _hyper_parameter(c, path) or (None, None, '')
    elif path in specs:
      _, of, meaning = specs[path]
    elif path.startswith('stage.'):  # a field of c that differs there
      _, of, meaning = specs.get(path.split('.', 2)[2], (None, None, ''))
    else:
      continue
    text = '; '.join(filter(None, (of.explain() if of else '', meaning)))
    lines.append(f'--config.{path}={value!r}: {text}')
  return '\n'.join(lines)


def _plain(c: Any) -> dict[str, Any]:
  values = config.to_dict(c)
  if not isinstance(values, dict):
    raise ValueError(
      f'a config must be a ConfigDict, got {type(c).__name__}; begin with'
      ' base.get_config()'
    )
  return values


def _check_sections(values: Mapping[str, Any], fix: str) -> None:
  """Checks that every section is there, so that others can be walked."""
  for name in (*config.FIXED, 'env', *config.OPEN):
    if not isinstance(values.get(name), dict):
      raise ValueError(
        f'{name}={values.get(name)!r} is not a section of a config{fix}'
      )
  if 'policy' not in values['role']:
    raise ValueError(f'role must hold a policy, got {[*values["role"]]}{fix}')


def _sections(values: Mapping[str, Any]) -> Iterator[Section]:
  """Yields all sections but the environment's, of a config that has them."""
  own = {x: v for x, v in values.items() if x not in _NESTED}
  yield _section('', Config, own)
  for name, cls in config.FIXED.items():
    yield _section(name, cls, values[name])
  hosted = registered.on_host(values['rollout'].get('kind'))
  yield _section('host', HostConfig, values['host'], required=hosted)
  for section, cls in config.NAMED.items():
    for name, held in values[section].items():
      path, required = f'{section}.{name}', section not in _PARTIAL
      made = _section(path, cls, held, required=required)
      kind = held.get('kind') if isinstance(held, dict) else ''
      if section == 'role' and kind != 'train':
        made = made._replace(required=domain.fields(RoleConfig))
      yield made
  for section, field in config.VALUES.items():
    held = values[section]
    yield Section(section, dict.fromkeys(held, field), held, ())


def _section(
  path: str, cls: type, values: Any, *, required: bool = True
) -> Section:
  fields = domain.fields(cls)
  return Section(path, fields, values, fields if required else ())


def _env(values: Mapping[str, Any]) -> Iterator[Section]:
  fields = envs.declared(values['env']['name'])
  yield Section('env', fields, values['env'], fields)


_NESTED = {*config.FIXED, 'env', *config.OPEN}
_PARTIAL = ('stage', 'select')  # what they hold is what they change


def _check(section: Section, fix: str) -> None:
  """Checks the names in a section."""
  path, fields, values = section.path, section.fields, section.values
  if not isinstance(values, dict):
    raise ValueError(f'{path}={values!r} is not a section of a config{fix}')
  for name in section.required:
    if name not in values:
      raise ValueError(f'{section.at(name)} is missing in this config{fix}')
  if path.startswith('stage.'):  # checked in the config of that stage
    return
  for name, value in values.items():
    if name not in fields:
      names = sorted({*fields, *(_NESTED if not path else ())})
      raise ValueError(
        f'{section.at(name)}={value!r:.80} is not a field of this config'
        f'{domain.suggest(name, names)}; {path or "it"} has'
        f' {", ".join(names) or "nothing"}'
      )


def _typed(values: Mapping[str, Any]) -> Config:
  """Returns the Config of plain values that fit it."""
  out = {name: _tuple(x) for name, x in values.items() if name not in _NESTED}
  for name, cls in config.FIXED.items():
    out[name] = _made(cls, values[name])
  for section, cls in config.NAMED.items():
    out[section] = {
      name: held if section in _PARTIAL else _made(cls, held)
      for name, held in values[section].items()
    }
  for section in config.VALUES:
    out[section] = {name: _tuple(x) for name, x in values[section].items()}
  out['env'] = envs.read(values['env'])
  out['host'] = _made(HostConfig, values['host'])
  return Config(**out, schedule=values['schedule'], hp=values['hp'])


def _made(cls: type, values: Mapping[str, Any]) -> Any:
  if (
    cls is TrainedRoleConfig
    and values.keys() <= domain.fields(RoleConfig).keys()
  ):
    cls = RoleConfig  # a network that is not trained
  return cls(**{name: _tuple(x) for name, x in values.items()})


def _tuple(x: Any) -> Any:
  return tuple(x) if isinstance(x, list) else x
