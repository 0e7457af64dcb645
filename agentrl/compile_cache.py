"""Persistent compilation cache: what one run compiled, later ones find.

JAX reads these variables when it is imported, and so do the processes that a
run starts. https://docs.jax.dev/en/latest/persistent_compilation_cache.html
"""

import os

FOLDER = 'JAX_COMPILATION_CACHE_DIR'
SECONDS = 0.3  # that a program took to compile, if it is kept
BYTES = 4 << 30  # of all programs; those not used for longest are let go


def variables(folder: str) -> dict[str, str]:
  """Environment variables of a cache in this folder."""
  return {
    FOLDER: folder,
    'JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS': str(SECONDS),
    'JAX_COMPILATION_CACHE_MAX_SIZE': str(BYTES),
  }


def default_folder() -> str:
  """agentrl/jax below $XDG_CACHE_HOME, or below ~/.cache without one."""
  home = os.environ.get('XDG_CACHE_HOME') or os.path.expanduser('~/.cache')
  return os.path.join(home, 'agentrl', 'jax')


def enable() -> None:
  """Sets the default cache, before JAX is imported.

  Variables that the user has set win (an empty folder: no cache), and a home
  that cannot be written to has none.
  """
  folder = default_folder()
  if FOLDER in os.environ:
    return
  try:
    os.makedirs(folder, exist_ok=True)
  except OSError:
    return
  if not os.access(folder, os.W_OK):
    return
  for name, value in variables(folder).items():
    os.environ.setdefault(name, value)
