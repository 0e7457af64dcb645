"""Files of the host that an interpreter needs, and no others."""

import functools
import glob
import json
import os
import subprocess

# Imports all that comes with the interpreter, to learn the libraries.
_SURVEY = """
import importlib, json, os, sys
places = [os.path.realpath(p) for p in sys.path if os.path.isdir(p)]
for place in places:
  for name in os.listdir(place):
    if '.so' in name:
      try:
        importlib.import_module(name.split('.')[0])
      except Exception:
        pass
maps = [line.split(maxsplit=5)[5:] for line in open('/proc/self/maps')]
files = {rest[0].strip() for rest in maps if rest}
print(json.dumps([places, [x for x in files if x[:1] == '/' and '.so' in x]]))
"""
_ALSO = ('/etc/ld.so.cache', '/dev/null', '/dev/urandom')
_FOREIGN = ('site-packages', 'dist-packages')


@functools.cache
def visible(
  python: str, packages: tuple[str, ...]
) -> tuple[list[str], list[str]]:
  """Returns what can be seen, and the folders in it that can not.

  Seen are the standard library, the folders of the shared libraries it needs,
  and `packages`; not seen are other packages installed beside it.

  Raises:
    ValueError: there is no such interpreter, or it is older than 3.11.
  """
  places, libraries = _survey(python)
  folders = {os.path.dirname(os.path.realpath(x)) for x in libraries}
  folders.update(places)
  paths = {*folders, *packages, *filter(os.path.exists, _ALSO)}
  outermost = [  # without those that lie in another one
    path
    for path in sorted(paths)
    if not any(path.startswith(other + os.sep) for other in paths)
  ]
  hidden = {
    os.path.realpath(path)
    for folder in folders
    for name in _FOREIGN
    for path in glob.glob(f'{folder}/{name}')
    + glob.glob(f'{folder}/python*/{name}')
  }
  return outermost, sorted(hidden - set(packages))


def _survey(python: str) -> tuple[list[str], list[str]]:
  try:
    done = subprocess.run(
      [python, '-s', '-S', '-P', '-c', _SURVEY],
      env={},
      cwd='/',
      capture_output=True,
      check=True,
      text=True,
    )
  except (OSError, subprocess.CalledProcessError) as error:
    raise ValueError(
      f'interpreter {python!r} cannot be used ({error}); name a Python 3.11 or'
      ' later by its whole path'
    ) from error
  return json.loads(done.stdout.splitlines()[-1])
