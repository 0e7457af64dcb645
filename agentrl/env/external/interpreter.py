"""Interpreters of other virtual environments, and what they can import.

A package with conflicting requirements gets its own virtual environment;
`env.python` names its interpreter, which runs each environment as a process.
"""

import functools
import importlib.util
import json
import os
import subprocess
import sys

_SECONDS = 60  # for an interpreter to start
_LEAST = (3, 11)  # of Python, as setup.py says
_PROBE = """
import importlib.util, json, sys
print(json.dumps([sys.version_info[:2],
                  importlib.util.find_spec(sys.argv[1]) is not None]))
"""


def check(python: str, path: str, field: str = 'make') -> None:
  """Checks that an interpreter runs and finds the module of 'module:name'.

  Only the top-level package is looked up, so nothing is imported.

  Args:
    python: of another virtual environment; '': this one.
    field: of c.env, which holds the path.

  Raises:
    ValueError: it does not.
  """
  module, colon, name = path.partition(':')
  if not (module and colon and name):
    raise ValueError(
      f"env.{field} must be an importable 'module:name', got {path!r}"
    )
  top = module.split('.')[0]
  if not python:
    there = importlib.util.find_spec(top) is not None
  else:
    version, there = _probe(python, top)
    if version < _LEAST:
      raise ValueError(
        f'env.python must be Python {_LEAST[0]}.{_LEAST[1]} or later, got'
        f' {version[0]}.{version[1]} at {python!r}'
      )
  if not there:
    where = f'env.python={python!r}' if python else 'this interpreter'
    raise ValueError(
      f'env.{field}={path!r}: {where} has no module {top!r}; install it'
      ' there, start from its folder, or set env.python to an interpreter'
      ' that has it'
    )


@functools.lru_cache(maxsize=8)
def _probe(python: str, top: str) -> tuple[tuple[int, ...], bool]:
  """Returns an interpreter's version and whether it finds a module."""
  try:
    done = subprocess.run(
      [python, '-c', _PROBE, top],
      env=os.environ | {'PYTHONPATH': os.pathsep.join(own_paths())},
      stdin=subprocess.DEVNULL,
      capture_output=True,
      check=True,
      timeout=_SECONDS,
    )
    version, there = json.loads(done.stdout)
    return tuple(version), bool(there)
  except (OSError, subprocess.SubprocessError, ValueError) as error:
    raise ValueError(
      'env.python must be the path of a Python interpreter, such as'
      f' /path/to/venv/bin/python, got {python!r} ({error})'
    ) from error


def own_paths() -> list[str]:
  """Returns the folders of the user's modules, not installed packages."""
  prefixes = {os.path.realpath(x) for x in (sys.prefix, sys.base_prefix)}
  paths = [os.path.realpath(x or os.getcwd()) for x in sys.path]
  return [
    x
    for x in dict.fromkeys(paths)
    if not any(x == p or x.startswith(p + os.sep) for p in prefixes)
  ]
