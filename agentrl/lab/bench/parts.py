"""Benchmarks of an accelerator in parts, each a process that may be repeated.

A part that ended leaves its figures in a folder and is not run again.
"""

import json
import pathlib
import subprocess
import sys
from collections.abc import Callable, Mapping

MAIN = 'agentrl.experiments.bench'
# Most important first: those of the table in docs/PERFORMANCE.md.
PARTS = {
  'attention-0.5B': ('--only=attention', '--size=0.5B'),
  'gradient-0.5B': ('--only=gradient', '--size=0.5B'),
  'decode-0.5B': ('--only=decode', '--size=0.5B'),
  'gradient-1.5B': ('--only=gradient', '--size=1.5B'),
  'decode-1.5B': ('--only=decode', '--size=1.5B'),
  'train': ('--only=train,rollout', '--size=full'),
}


def run(
  folder: str,
  seconds: float,
  parts: Mapping[str, tuple[str, ...]] = PARTS,
  tell: Callable[[str], None] = print,
) -> list[str]:
  """Runs the parts that are not done yet; -> those that are not done then.

  Args:
    seconds: that a part may take
  """
  place, left = pathlib.Path(folder), []
  place.mkdir(parents=True, exist_ok=True)
  for name, args in parts.items():
    done, new = place / f'{name}.json', place / f'{name}.new'
    if done.exists():
      tell(f'{name} is done: {done}')
      continue
    command = [sys.executable, '-m', MAIN, *args, f'--json={new}']
    tell(f'{name}: {" ".join(args)}, {seconds:.0f} s at most')
    if why := _failure(command, seconds):
      tell(f'{name} {why}; the next call tries it again')
      left.append(name)
      continue
    new.rename(done)
  return left


def _failure(command: list[str], seconds: float) -> str:
  """Says how the command failed; '': it ended well."""
  try:
    code = subprocess.run(command, timeout=seconds, check=False).returncode
  except subprocess.TimeoutExpired:
    return f'had no figures after {seconds:.0f} s'
  return f'ended with {code}' if code else ''


def table(folder: str, parts: Mapping[str, tuple[str, ...]] = PARTS):
  """Yields the figures of the parts that are done, as a Markdown table."""
  yield '| part | figure | device | ms | bound / time | utilisation | shapes |'
  yield '|---|---|---|---|---|---|---|'
  for name in parts:
    path = pathlib.Path(folder, f'{name}.json')
    if not path.exists():
      continue
    out = json.loads(path.read_text(encoding='utf-8'))
    for x in out['figures']:
      median = 1e3 * x['seconds']['median']
      share = f'{1 / x["ratio"]:.2f} | {x["utilisation"]:.2f}'
      figures = f'{median:.4g} | {share} | {x["shapes"]}'
      yield f'| {name} | {x["name"]} | {out["device"]} | {figures} |'
