"""Interpreters of other virtual environments, and what they can import.

A package that cannot live beside ours gets a virtual environment of its own;
`env.python` names its interpreter, and each environment is a process of it.
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

  Only the package at its top is looked for, which imports nothing.

  Args:
    python: of another virtual environment; '': this one.
    field: of c.env, which holds the path.

  Raises:
    ValueError: it does not.
  """
  module, colon, name = path.partition(':')
  if not (module and colon and name):
    raise ValueError(
      f"env.{field}={path!r} names no function; write 'module:name', the module"
      ' as Python imports it'
    )
  top = module.split('.')[0]
  if not python:
    there = importlib.util.find_spec(top) is not None
  else:
    version, there = _probe(python, top)
    if version < _LEAST:
      raise ValueError(
        f'env.python={python!r} is Python {version[0]}.{version[1]}; give one'
        f' of {_LEAST[0]}.{_LEAST[1]} or later'
      )
  if not there:
    where = f'env.python={python!r}' if python else 'this interpreter'
    raise ValueError(
      f'env.{field}={path!r}: {where} has no module {top!r}; install it'
      ' there, start from its folder, or set env.python to the interpreter of'
      ' the virtual environment that has it'
    )


@functools.lru_cache(maxsize=8)
def _probe(python: str, top: str) -> tuple[tuple[int, ...], bool]:
  """Its version, and whether it finds a module."""
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
      f'env.python={python!r} is no Python that starts ({error}); give the path'
      ' of an interpreter, as /path/to/venv/bin/python'
    ) from error


def own_paths() -> list[str]:
  """The folders where a user's modules are, without installed packages."""
  prefixes = {os.path.realpath(x) for x in (sys.prefix, sys.base_prefix)}
  paths = [os.path.realpath(x or os.getcwd()) for x in sys.path]
  return [
    x
    for x in dict.fromkeys(paths)
    if not any(x == p or x.startswith(p + os.sep) for p in prefixes)
  ]
