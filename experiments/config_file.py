"""Config files: they are loaded, or a sentence says what is wrong with one."""

import functools
import importlib.util
import os
import traceback
import types
from typing import Any

from ml_collections import ConfigDict


@functools.cache
def load_module(path: str) -> types.ModuleType:
  """The module of a file. Raises ValueError, one sentence."""
  if not os.path.isfile(path):
    raise ValueError(f'{path!r} is no file that can be read')
  spec = importlib.util.spec_from_file_location('config_file', path)
  if spec is None or spec.loader is None:
    raise ValueError(f'{path!r} is no Python file; a config is one')
  module = importlib.util.module_from_spec(spec)
  try:
    spec.loader.exec_module(module)
  except Exception as error:
    raise ValueError(explain(error, path) or f'{path}: {error}') from error
  return module


def load(config: str) -> ConfigDict:
  """The config of 'FILE:ARGUMENT', as for --config. Raises ValueError."""
  path, _, arg = config.partition(':')
  module = load_module(path)
  try:
    found = module.get_config(arg)
  except Exception as error:
    raise ValueError(explain(error, path) or str(error)) from error
  if not isinstance(found, ConfigDict):
    raise ValueError(odd(found, path))
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


def odd(found: Any, path: str) -> str:
  """What is wrong with what get_config() returned, which is no ConfigDict."""
  try:
    found['method']  # config_flags keeps an OSError until somebody looks
  except OSError as error:
    return explain(error, path) or str(error)
  except Exception:  # it is of any kind
    pass
  return (
    f'get_config() of {path} returns {type(found).__name__}; return a'
    ' ConfigDict, from base.get_config()'
  )


def _same(one: str, other: str) -> bool:
  return os.path.realpath(one) == os.path.realpath(other)
