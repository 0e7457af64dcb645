"""Draws the metrics of runs on one HTML page, without account or server.

  python -m experiments.dashboard runs/oprl  # writes runs/oprl/dashboard.html
  python -m experiments.dashboard runs/oprl runs/grpo --out=both.html
  python -m experiments.dashboard runs/oprl --every=30

Several runs are drawn together, with the differences of their configs. For a
run in progress, --every=N rewrites the page every N seconds until ^C.
"""

import contextlib
import datetime
import pathlib
import time

from agentrl import cli
from agentrl.domain import COUNT0, OneOf, Path, Text
from agentrl.runtime import storage

_OUT = cli.flag(
  'out', '', Path(), 'File to write; of one run, dashboard.html in its folder'
)
_X = cli.flag('x', 'step', Text(), 'Horizontal axis: step or time/seconds')
_SMOOTH = cli.flag(
  'smooth', 0, COUNT0, 'Steps to average; 0: a twentieth of the longest run'
)
_EVERY = cli.flag('every', 0, COUNT0, 'Seconds between writes; 0: once')


def write(runs: list[str], out: str) -> None:
  from agentrl.report.dashboard import curves, page  # takes seconds

  OneOf(*curves.X).check('--x', _X.value)
  text = page.page(
    curves.read(runs),
    x=_X.value,
    smooth=_SMOOTH.value,
    again=_EVERY.value or None,
    now=datetime.datetime.now(datetime.UTC),
  )
  storage.write(out, text)


def main(*runs: str) -> None:
  out = _OUT.value
  if out and not (folder := pathlib.Path(out).absolute().parent).is_dir():
    raise ValueError(f'--out={out}: make the folder {folder} first')
  if not out and len(runs) > 1:
    raise ValueError('--out must name a file for several runs, got none')
  out = out or str(storage.path(runs[0]) / 'dashboard.html')
  write(list(runs), out)
  print(f'{len(runs)} run(s) in {out}', flush=True)
  with contextlib.suppress(KeyboardInterrupt):
    while _EVERY.value:
      time.sleep(_EVERY.value)
      write(list(runs), out)


if __name__ == '__main__':
  cli.run(main, operands=('RUN...',))
