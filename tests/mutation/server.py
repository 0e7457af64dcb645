"""A warm process that forks one for each set of tests.

  python -m tests.mutation.server

Reads lines of JSON, `{"words": [...], "report": path}`: pytest's arguments and
where its output goes. Answers each with three lines: the number of the process
that runs them (it leads a session of its own), how that process ended and how
many milliseconds of processors it took, those of its children among them. The
libraries are imported once, here; nothing of `agentrl`, `configs` or
`experiments` is, so that a fork imports the mistake. No device is asked
before a fork, as JAX must not be forked after that.
"""

import importlib
import json
import os
import sys
import warnings

import pytest

LIBRARIES = (
  'absl.flags',
  'absl.logging',
  'chex',
  'flax.struct',
  'hypothesis',
  'jax.experimental.multihost_utils',
  'jax.experimental.pallas',
  'matplotlib',
  'matplotlib.figure',
  'ml_collections',
  'numpy',
  'optax',
  'orbax.checkpoint',
  'scipy.stats',
  'tests.conftest',
  'xdist',
)
OURS = 'agentrl', 'configs', 'experiments'


def main() -> None:
  for name in LIBRARIES:
    importlib.import_module(name)
  ours = [name for name in sys.modules if name.partition('.')[0] in OURS]
  if ours:
    raise RuntimeError(f'{ours[0]} is imported before a mistake is planted')
  # JAX warns of forks; its threads start with a device, which none has yet.
  warnings.filterwarnings('ignore', 'os.fork', RuntimeWarning)
  for line in sys.stdin:
    asked = json.loads(line)
    process = os.fork()
    if not process:
      run(asked['words'], asked['report'])
    print(process, flush=True)
    _, status, used = os.wait4(process, 0)
    print(os.waitstatus_to_exitcode(status))
    print(round(1000 * (used.ru_utime + used.ru_stime)), flush=True)


def run(words: list[str], report: str) -> None:
  """pytest, whose code this process ends with."""
  os.setsid()
  out = os.open(report, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
  nothing = os.open(os.devnull, os.O_RDONLY)
  for source, target in ((nothing, 0), (out, 1), (out, 2)):
    os.dup2(source, target)
  code = 1
  try:
    code = pytest.main(words)
  finally:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == '__main__':
  main()
