"""Persistent compilation cache: what one run compiled, later ones find.

https://docs.jax.dev/en/latest/persistent_compilation_cache.html
"""

import os
from typing import Any

FOLDER = 'JAX_COMPILATION_CACHE_DIR'
SECONDS = 0.3  # that a program took to compile, if it is kept
BYTES = 4 << 30  # of all programs; those not used for longest are let go


def settings(folder: str) -> dict[str, Any]:
  """Gives JAX's settings of a cache in this folder, by environment variable."""
  return {
    FOLDER: folder,
    'JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS': SECONDS,
    'JAX_COMPILATION_CACHE_MAX_SIZE': BYTES,
  }


def variables(folder: str) -> dict[str, str]:
  """Returns the environment variables of a cache in this folder."""
  return {name: str(value) for name, value in settings(folder).items()}


def default_folder() -> str:
  """Returns agentrl/jax below $XDG_CACHE_HOME, or else below ~/.cache."""
  home = os.environ.get('XDG_CACHE_HOME') or os.path.expanduser('~/.cache')
  return os.path.join(home, 'agentrl', 'jax')


def enable() -> None:
  """Sets the default cache of this process.

  Variables that the user has set win (an empty folder: no cache), and a home
  that cannot be written to has none. No variable is set: a process that this
  one starts would take it for the user's.
  """
  import jax  # takes a second, which those who only name a cache do not need

  folder = default_folder()
  if FOLDER in os.environ:
    return
  try:
    os.makedirs(folder, exist_ok=True)
  except OSError:
    return
  if not os.access(folder, os.W_OK):
    return
  for name, value in settings(folder).items():
    if name not in os.environ:
      jax.config.update(name.lower(), value)
