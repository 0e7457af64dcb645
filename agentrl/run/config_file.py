"""Config files: they are loaded, or a sentence says what is wrong with one."""

import functools
import importlib.util
import os
import pathlib
import traceback
import types

from ml_collections import ConfigDict

from agentrl import configs

FOLDER = pathlib.Path(configs.__file__).parent  # of the methods
_SHARED = {'__init__', 'base', 'envs'}  # no methods


def methods() -> list[str]:
  """The names of all configs."""
  return sorted({path.stem for path in FOLDER.glob('*.py')} - _SHARED)


def find(name: str) -> str:
  """The file of a config: of a path, or of a method such as 'oprl'.

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
  raise ValueError(
    f'{name!r} cannot be read; give the path of a config file, or a method:'
    f' {", ".join(methods())}'
  )


@functools.cache
def load_module(name: str) -> types.ModuleType:
  """The module of a file or of a method. Raises ValueError, one sentence.

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
    raise ValueError(f'{str(file)!r} is no Python file; a config is one')
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module


def load(config: str) -> ConfigDict:
  """The config of 'FILE:ARGUMENT', as for --config. Raises ValueError."""
  name, _, arg = config.partition(':')
  path, module = find(name), load_module(name)
  try:
    found = module.get_config(arg)
  except Exception as error:
    raise ValueError(explain(error, path) or str(error)) from error
  if not isinstance(found, ConfigDict):
    raise ValueError(
      f'get_config() of {path} returns {type(found).__name__}; return a'
      ' ConfigDict, from base.get_config()'
    )
  return found


def explain(error: BaseException, path: str) -> str:
  """Where a config file went wrong, and how; '' if the file did not.

  A ValueError of what it calls is a sentence already.
  """
  found = ''
  chain: BaseException | None = error
  while chain is not None:
    found = _place(chain, path) or found
    chain = chain.__cause__ or chain.__context__
  return found


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
  here = [x for x in frames if _same(x.filename, path)]
  inside = bool(here) and here[-1] is frames[-1]
  if not here or (isinstance(error, ValueError) and not inside):
    return ''
  return f'{path}, line {here[-1].lineno}: {type(error).__name__}: {text}'


def _same(one: str, other: str) -> bool:
  return os.path.realpath(one) == os.path.realpath(other)
