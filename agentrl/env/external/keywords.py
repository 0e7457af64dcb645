"""Settings of other packages, as one text: 'numbers=2, largest=30'.

Imports little, since processes of environments wait for it.
"""

import ast
from collections.abc import Callable
from typing import Any

from agentrl.service.base import load_function


def parse(text: str) -> dict[str, Any]:
  """Parses settings of 'name=value, ...', each value as Python writes it.

  Raises:
    ValueError: it is written otherwise.
  """
  try:
    call = ast.parse(f'f({text})', mode='eval').body
    if not isinstance(call, ast.Call) or call.args:
      raise ValueError('a value has no name')
    named = {x.arg: ast.literal_eval(x.value) for x in call.keywords}
    return {name: named[name] for name in map(str, named)}
  except (SyntaxError, ValueError, KeyError) as error:
    raise ValueError(
      f"env.settings={text!r} cannot be read; write them as 'numbers=2,"
      " largest=30'"
    ) from error


def make(path: str, id: str, settings: str) -> Any:
  """Calls the id's function 'module:name', if it names one, with the settings.

  Raises:
    ValueError: there is no such function, or it makes nothing of them.
  """
  try:
    function: Callable = load_function(path, '(id, **settings)')
  except ValueError as error:
    raise ValueError(f'env.make={error}') from error
  named = parse(settings)
  try:
    return function(*([id] if id else []), **named)
  except OSError:  # of the machine, which may be better next time
    raise
  except Exception as error:  # of a package that is not ours
    raise ValueError(
      f'env.make={path!r} made no environment of env.id={id!r} and'
      f' env.settings={settings!r} ({type(error).__name__}: {error}); give'
      ' those that it takes'
    ) from error


def lacking(made: Any, *names: str) -> list[str]:
  """Lists the names that a package's object lacks; wrappers hide theirs."""
  return [name for name in names if not _has(made, name)]


def _has(made: Any, name: str) -> bool:
  try:
    getattr(made, name)
  except AttributeError:
    return False
  return True


def close(made: Any) -> None:
  """Closes it, where it can be closed."""
  if _has(made, 'close'):
    made.close()
