"""Trains an agent: supervised warm start, then reinforcement learning.

  python -m experiments.train --config=configs/oprl.py --workdir=runs/oprl

Repeating the command goes on where the run was cut off. Short on purpose: the
parts are in build.py and runner.py, to be used from a notebook too.
"""

import os

from absl import app, flags, logging
from ml_collections import config_flags

_CONFIG = config_flags.DEFINE_config_file(
  'config', None, 'The experiment, e.g. configs/oprl.py:tiny', lock_config=True
)
_WORKDIR = flags.DEFINE_string('workdir', None, 'Where the run is kept.')


def main(argv):
  if len(argv) > 1:
    raise app.UsageError(f'{argv[1]!r} is not a flag')
  logging.set_verbosity(logging.INFO)
  logging.get_absl_handler().addFilter(lambda r: 'orbax' not in r.pathname)
  import jax  # after the flags, which may configure it

  jax.config.parse_flags_with_absl()
  from experiments import runner

  try:
    print(runner.run(_CONFIG.value, os.path.abspath(_WORKDIR.value)))
  except ValueError as error:
    raise app.UsageError(str(error)) from error


if __name__ == '__main__':
  flags.mark_flags_as_required(['config', 'workdir'])
  app.run(main)
