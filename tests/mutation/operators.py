"""Plants mistakes drawn by a seed and says which the fast tests notice.

  python -m tests.mutation.operators --count=100 --seed=1
  python -m tests.mutation.operators --since=main --only=agentrl/loss

The mistakes are those of `edits`, drawn evenly over modules, then over
operators. Each meets the files of tests nearest to its module until one fails
or their time is spent. Nothing is planted in the repository itself. A draw
that was interrupted goes on where it was: what is in --out is not repeated
while the module and its tests stay as they are.
"""

import hashlib
import json
import pathlib
import random
import re
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from absl import app, flags

from tests.mutation import edits, mutant, nearest, planting
from tests.mutation.edits import Edit
from tests.mutation.mutant import ROOT

# Studies, and what draws or measures; configs are numbers, not code.
WITHOUT = tuple(
  f'agentrl/{x}' for x in ('bench', 'capacity', 'report', 'static', 'study')
)
SLOWER = 4  # times what the tests take without a mistake is a time limit
START = 30  # seconds for a process of tests to start

_COUNT = flags.DEFINE_integer('count', 100, 'mistakes; 0: all that there are')
_SEED = flags.DEFINE_integer('seed', 0, 'of the draw')
_MODULES = flags.DEFINE_list('modules', ['agentrl'], 'folders or files')
_WITHOUT = flags.DEFINE_list('without', list(WITHOUT), 'folders left out')
_ONLY = flags.DEFINE_string('only', '', 'regular expression of files')
_SINCE = flags.DEFINE_string('since', '', 'revision: only lines changed since')
_STEPS = flags.DEFINE_integer('steps', 4, 'imports from a test to the module')
_SECONDS = flags.DEFINE_float('seconds', 120.0, 'of tests without a mistake')
_WORKERS = flags.DEFINE_integer('workers', 2, 'copies that are tested at once')
_OUT = flags.DEFINE_string(
  'out',
  str(pathlib.Path(tempfile.gettempdir(), 'agentrl-operators.json')),
  'what was judged and how long tests take, as JSON; read and added to',
)

Drawn = tuple[str, Edit]  # a file, a mistake in it
Lines = dict[str, set[int]]  # by file


def read(file: str) -> str:
  return (ROOT / file).read_text(encoding='utf-8')


def draw(files: Sequence[str], seed: int, lines: Lines | None = None):
  """Yields every mistake in the files once, an even number of each file."""
  rng = random.Random(seed)
  left: dict[str, list[Edit]] = {}
  for file in files:
    found = edits.edits(read(file))
    left[file] = [x for x in found if lines is None or x.line in lines[file]]
  while left := {file: found for file, found in left.items() if found}:
    for file in rng.sample(list(left), len(left)):
      text, found = read(file), left[file]
      while found:
        operator = rng.choice(sorted({x.operator for x in found}))
        edit = rng.choice([x for x in found if x.operator == operator])
        found.remove(edit)
        if edits.changes(text, edit.applied(text)):
          yield file, edit
          break


def changed(diff: str) -> Lines:
  """Lines of the new files, of a diff without lines around the changes."""
  found: Lines = {}
  for line in diff.splitlines():
    if line.startswith('+++ '):
      file = line.removeprefix('+++ ').removeprefix('b/')
      found[file] = set()
    elif match := re.match(r'@@ \S+ \+(\d+)(?:,(\d+))? @@', line):
      first, count = int(match[1]), int(match[2] or 1)
      found[file] |= set(range(first, first + count))
  return found


class Judge:
  """Runs the tests of mistakes; keeps what came of it in a file."""

  def __init__(self, out: pathlib.Path, seconds: float, steps: int):
    self._out, self._seconds, self._steps = out, seconds, steps
    self._lock = threading.Lock()
    self.rows: dict[str, dict[str, Any]] = {}
    self._plain: dict[str, dict[str, Any]] = {}  # tests without a mistake
    if out.exists():
      self.rows, self._plain = json.loads(out.read_text())

  def key(self, drawn: Drawn) -> str:
    tests = nearest.tests(drawn[0], self._steps)
    texts = [read(x) for x in (drawn[0], *tests)]
    words = repr((drawn, texts, self._seconds)).encode()
    return hashlib.sha256(words).hexdigest()[:16]

  def __call__(self, copy: planting.Copy, drawn: Drawn) -> dict[str, Any]:
    file, edit = drawn
    text, spent, ran = read(file), 0.0, []
    row = {'file': file, 'line': edit.line, 'operator': edit.operator}
    row |= {'outcome': 'survived', 'who': ''}
    for tests in nearest.tests(file, self._steps):
      plain = self.plain(copy, tests)
      if plain['outcome'] != 'passed':
        continue
      if spent + plain['seconds'] > self._seconds:
        break
      ran.append(tests)
      spent += plain['seconds']
      with copy.planted(file, edit.applied(text)):
        found = copy.run(tests, SLOWER * plain['seconds'] + START)
      if found.outcome != 'passed':
        row |= {'outcome': 'noticed', 'who': found.who or found.outcome}
        break
    row |= {'seconds': round(spent, 1), 'tests': ran}
    row['diff'] = mutant.patch(file, text, edit.applied(text))
    with self._lock:
      self.rows[self.key(drawn)] = row
      self._save()
    return row

  def plain(self, copy: planting.Copy, tests: str) -> dict[str, Any]:
    """Outcome and seconds of tests without a mistake."""
    key = hashlib.sha256(f'{tests}{read(tests)}'.encode()).hexdigest()[:16]
    if key not in self._plain:
      found = copy.run(tests, SLOWER * self._seconds)
      row = {'tests': tests, 'outcome': found.outcome}
      self._plain[key] = row | {'seconds': round(found.seconds, 1)}
    return self._plain[key]

  def _save(self) -> None:
    self._out.write_text(json.dumps([self.rows, self._plain], indent=1))


def mistakes() -> Iterator[Drawn]:
  names = nearest.modules(tuple(_MODULES.value), tuple(_WITHOUT.value))
  names = [x for x in names if re.search(_ONLY.value, x)]
  lines = None
  if _SINCE.value:
    words = ['git', 'diff', '-U0', _SINCE.value, '--', 'agentrl']
    lines = changed(subprocess.check_output(words, cwd=ROOT, text=True))
    names = [x for x in names if x in lines]
  for i, drawn in enumerate(draw(names, _SEED.value, lines)):
    if i == _COUNT.value != 0:
      return
    yield drawn


def main(argv: Sequence[str]) -> None:
  if len(argv) > 1:
    raise app.UsageError(f'{argv[1]!r} is no flag; use --only=REGEX')
  chosen = list(mistakes())
  judge = Judge(pathlib.Path(_OUT.value), _SECONDS.value, _STEPS.value)
  left = [x for x in chosen if judge.key(x) not in judge.rows]
  with tempfile.TemporaryDirectory() as folder:
    copies = [
      planting.Copy(pathlib.Path(folder, str(i)))
      for i in range(min(_WORKERS.value, len(left)))
    ]
    for _, row in planting.each(copies, judge, left) if left else ():
      place = f'{row["file"]}:{row["line"]}'
      print(
        f'{row["outcome"]} {row["operator"]} {place} {row["who"]}', flush=True
      )
    for copy in copies:
      copy.close()
  rows = [judge.rows[judge.key(x)] for x in chosen]
  survived = [x for x in rows if x['outcome'] == 'survived']
  for row in survived:
    print(f'\n{row["operator"]}, {", ".join(row["tests"])}\n{row["diff"]}')
  share = 1 - len(survived) / max(len(rows), 1)
  print(f'{share:.1%} of {len(rows)} mistakes were noticed; {_OUT.value}')


if __name__ == '__main__':
  app.run(main)
