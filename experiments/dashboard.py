"""The metrics of runs as pictures: one HTML page, without account or server.

  python -m experiments.dashboard runs/oprl
  python -m experiments.dashboard runs/oprl runs/grpo --out=both.html
  python -m experiments.dashboard runs/oprl --every=30

Several runs stand side by side, with what differs in their configs. A run may
still be going on: with --every the page is written anew every so many seconds
until ^C, and an open browser shows it. The page loads nothing and can be sent
to somebody.
"""

import datetime
import pathlib
import time

from absl import flags

from agentrl import cli
from agentrl.domain import COUNT0, Path
from agentrl.log import metrics
from agentrl.report.dashboard import curves, page

_OUT = cli.flag('out', 'dashboard.html', Path(empty=False), 'File to write')
_X = flags.DEFINE_enum('x', 'step', list(curves.X), 'What pictures go along.')
_SMOOTH = cli.flag(
  'smooth', 0, COUNT0, 'Steps of a mean; 0: a twentieth of the longest run'
)
_EVERY = cli.flag('every', 0, COUNT0, 'Seconds; 0: written once')


def write(runs: list[str]) -> None:
  text = page.page(
    curves.read(runs),
    x=_X.value,
    smooth=_SMOOTH.value,
    again=_EVERY.value or None,
    now=datetime.datetime.now(datetime.UTC),
  )
  metrics.replace(pathlib.Path(_OUT.value), text)


def main(*runs: str) -> None:
  if not (folder := pathlib.Path(_OUT.value).absolute().parent).is_dir():
    raise ValueError(
      f'--out={_OUT.value}: there is no folder {folder}; make it'
    )
  write(list(runs))
  print(f'{len(runs)} run(s) in {_OUT.value}', flush=True)
  try:
    while _EVERY.value:
      time.sleep(_EVERY.value)
      write(list(runs))
  except KeyboardInterrupt:
    print('stopped')


if __name__ == '__main__':
  cli.run(main, operands=('RUN...',))
