"""Config files: finds and loads them, and explains their errors."""

import functools
import importlib.util
import os
import pathlib
import re
import traceback
import types
from collections.abc import Iterable, Mapping
from typing import Any

from ml_collections import ConfigDict

from agentrl import configs, domain

FOLDER = pathlib.Path(configs.__file__).parent  # of the methods
# Modules that are no methods.
_SHARED = {
  *('__init__', 'base', 'config', 'env_sections', 'envs', 'history_sections'),
  *('pretrained', 'sections', 'stages'),
}
FILLED = ('hp.', 'coef.')  # fields that components bring along


def methods() -> list[str]:
  """Returns the names of all configs."""
  return sorted({path.stem for path in FOLDER.glob('*.py')} - _SHARED)


def find(name: str) -> str:
  """Returns the file of a config: of a path, or of a method such as 'oprl'.

  Where nothing is cloned, 'configs/oprl.py' is that method as well. Raises
  ValueError, one sentence.
  """
  if os.path.isfile(name) and os.access(name, os.R_OK):
    return name
  parts = pathlib.Path(name).parts
  inside = FOLDER.joinpath(*parts[parts[:1] == ('configs',) :])
  file = inside.parent / f'{inside.stem}.py'
  if file.is_file() and file.stem not in _SHARED:
    return str(file)
  close = domain.suggest(inside.stem, methods())
  raise ValueError(
    f'{name!r} cannot be read{close}; give the path of a config file, or a'
    f' method: {", ".join(methods())}'
  )


@functools.cache
def load_module(name: str) -> types.ModuleType:
  """Loads the module of a file or method. Raises ValueError, one sentence.

  A method is one module, however it is named: nothing registers twice.
  """
  path = find(name)
  try:
    return _module(pathlib.Path(path).resolve(), FOLDER.resolve())
  except Exception as error:
    raise ValueError(explain(error, path) or f'{path}: {error}') from error


def _module(file: pathlib.Path, folder: pathlib.Path) -> types.ModuleType:
  if file.is_relative_to(folder):
    parts = file.relative_to(folder).with_suffix('').parts
    return importlib.import_module('.'.join([configs.__name__, *parts]))
  spec = importlib.util.spec_from_file_location('config_file', file)
  if spec is None or spec.loader is None:
    raise ValueError(f'a config must be a Python file, got {str(file)!r}')
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module


def load(config: str) -> ConfigDict:
  """Loads the config of 'FILE:ARGUMENT', as for --config. Raises ValueError."""
  name, _, arg = config.partition(':')
  path, module = find(name), load_module(name)
  try:
    config_dict = module.get_config(arg)
  except Exception as error:
    raise ValueError(explain(error, path) or f'{path}: {error}') from error
  if not isinstance(config_dict, ConfigDict):
    raise ValueError(
      f'get_config() of {path} returns {type(config_dict).__name__}; return a'
      ' ConfigDict, from base.get_config()'
    )
  return config_dict


def change(c: ConfigDict, changes: Mapping[str, Any]) -> ConfigDict:
  """Changes the config by {path: value}; ValueError if they do not fit.

  Components are changed before their hyper-parameters, whatever the order.
  """
  c.lock()  # a path that is not there is a mistake
  paths = sorted(changes, key=filled)
  for path in paths:
    value = changes[path]
    if filled(path):
      fill(c)
    add_fields(c, [path])
    try:
      c.update_from_flattened_dict({path: value})
    except (KeyError, AttributeError) as error:
      raise ValueError(no_field(c, path) or str(error)) from error
    except (TypeError, ValueError) as error:
      why = ' '.join(str(error).split())
      raise ValueError(
        f'config.{path}={value!r:.80} does not fit: {why:.200}'
      ) from error
  return c


def filled(path: str) -> bool:
  """Returns whether components bring the field along, also in a stage."""
  return re.sub(r'^stage\.[^.]*\.', '', path).startswith(FILLED)


def add_fields(c: ConfigDict, paths: Iterable[str]) -> ConfigDict:
  """Adds to stages the fields of the config that a change sets there."""
  from agentrl.configs import stages  # takes seconds, as in `fill`

  stages.add_fields(c, paths)
  return c


def fill(c: ConfigDict) -> ConfigDict:
  """Adds the hyper-parameters of components that a change has named."""
  from agentrl.configs import base  # takes seconds, unless a config is loaded

  return base.fill(c)


def no_field(c: ConfigDict, path: str) -> str:
  """Explains that a config lacks a path; '' if it has it."""
  from agentrl.run.check import field_hints  # takes seconds, as in `fill`

  node, before = c, 'config'
  for part in path.split('.'):
    if not isinstance(node, ConfigDict):
      return (
        f'config.{path}: {before} is a value, {node!r}; set {before} itself'
      )
    if part not in node:
      close = domain.suggest(part, node) or field_hints.near(c, path)
      return (
        f'{before}.{part} is not a field of this config{close}; {before} has'
        f' {", ".join(sorted(node)) or "nothing"}'
      )
    node, before = node[part], f'{before}.{part}'
  return ''


def explain(error: BaseException, path: str) -> str:
  """Explains where a config file failed; '' if the error is elsewhere.

  A ValueError of what it calls is a sentence already.
  """
  text = ''
  chain: BaseException | None = error
  while chain is not None:
    text = _place(chain, path) or text
    chain = chain.__cause__ or chain.__context__
  return text


def _place(error: BaseException, path: str) -> str:
  text = ' '.join(str(error).split())
  if isinstance(error, SyntaxError):
    line = f', line {error.lineno}' if error.lineno else ''
    return f'{error.filename or path}{line}: {error.msg}'
  if isinstance(error, AttributeError) and "'get_config'" in text:
    return (
      f'{path} has no function get_config(); a config is a Python file with'
      ' one, such as configs/grpo.py'
    )
  frames = traceback.extract_tb(error.__traceback__)
  file = os.path.realpath(path)
  here = [x for x in frames if os.path.realpath(x.filename) == file]
  inside = bool(here) and here[-1] is frames[-1]
  if not here or (isinstance(error, ValueError) and not inside):
    return ''
  return f'{path}, line {here[-1].lineno}: {type(error).__name__}: {text}'
