"""Draws the metrics of runs on one HTML page, without account or server.

  python -m experiments.dashboard runs/oprl
  python -m experiments.dashboard runs/oprl runs/grpo --out=both.html
  python -m experiments.dashboard runs/oprl --every=30

Several runs are drawn together, with the differences of their configs. For a
run in progress, --every rewrites the page every so many seconds until ^C, and
an open browser follows. The page is one file and loads nothing else.
"""

import datetime
import pathlib
import time

from agentrl import cli, storage
from agentrl.domain import COUNT0, OneOf, Path, Text

_OUT = cli.flag('out', 'dashboard.html', Path(empty=False), 'File to write')
_X = cli.flag('x', 'step', Text(), 'Horizontal axis: step or time/seconds')
_SMOOTH = cli.flag(
  'smooth', 0, COUNT0, 'Steps to average; 0: a twentieth of the longest run'
)
_EVERY = cli.flag('every', 0, COUNT0, 'Seconds between writes; 0: once')


def write(runs: list[str]) -> None:
  from agentrl.report.dashboard import curves, page  # takes seconds

  OneOf(*curves.X).check('--x', _X.value)
  text = page.page(
    curves.read(runs),
    x=_X.value,
    smooth=_SMOOTH.value,
    again=_EVERY.value or None,
    now=datetime.datetime.now(datetime.UTC),
  )
  storage.write(_OUT.value, text)


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
