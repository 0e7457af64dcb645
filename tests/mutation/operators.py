"""Plants mistakes drawn by a seed and says which the fast tests notice.

  python -m tests.mutation.operators --count=100 --seed=1
  python -m tests.mutation.operators --since=main --only=agentrl/loss
  python -m tests.mutation.operators --laws

The mistakes are those of `edits`, drawn evenly over modules, then over
operators; with --laws those of `laws`, which must all be noticed. Each meets
the files of tests nearest to its module until one fails or their time is
spent. Nothing is planted in the repository itself. A draw that was interrupted
goes on where it was: what is in --out is not repeated while the module and its
tests stay as they are.
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

from tests.mutation import edits, laws, nearest, planting
from tests.mutation.edits import Edit
from tests.mutation.nearest import ROOT

# What draws, measures or compares; configs are numbers, not code.
WITHOUT = ('agentrl/report', 'agentrl/lab')
MOST = 20  # files of tests, for one mistake
# Pages that are made of what is registered.
LAST = 'tests/docs/api_test.py', 'tests/docs/reference_test.py'

# Of this command alone: tests import it beside others.
OWN = flags.FlagValues()
_COUNT = flags.DEFINE_integer(
  'count', 100, 'mistakes; 0: all that there are', flag_values=OWN
)
_SEED = flags.DEFINE_integer('seed', 0, 'of the draw', flag_values=OWN)
_MODULES = flags.DEFINE_list(
  'modules', ['agentrl'], 'folders or files', flag_values=OWN
)
_WITHOUT = flags.DEFINE_list(
  'without', list(WITHOUT), 'folders left out', flag_values=OWN
)
_ONLY = flags.DEFINE_string(
  'only', '', 'regular expression of files', flag_values=OWN
)
_SINCE = flags.DEFINE_string(
  'since', '', 'revision: only lines changed since', flag_values=OWN
)
_LAWS = flags.DEFINE_bool(
  'laws', False, 'the mistakes of laws.txt, all of them', flag_values=OWN
)
_SECONDS = flags.DEFINE_float(
  'seconds',
  120.0,
  'of processors, after which no other file of tests begins',
  flag_values=OWN,
)
_LIMIT = flags.DEFINE_float(
  'limit', 600.0, 'seconds for one file of tests', flag_values=OWN
)
_WORKERS = flags.DEFINE_integer(
  'workers', 2, 'copies that are tested at once', flag_values=OWN
)
_OUT = flags.DEFINE_string(
  'out',
  str(pathlib.Path(tempfile.gettempdir(), 'agentrl-operators.json')),
  'what was judged and how long tests take, as JSON; read and added to',
  flag_values=OWN,
)

_SKIPPED = re.compile(r'\d+ skipped')  # by a test itself: a package is lacking
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

  def __init__(self, out: pathlib.Path, seconds: float, limit: float):
    self._out, self._seconds, self._limit = out, seconds, limit
    self._lock = threading.Lock()
    self.rows: dict[str, dict[str, Any]] = {}
    # Outcomes of tests without a mistake, by the text of the tests.
    self._plain: dict[str, str] = {}
    if out.exists():
      self.rows, self._plain = json.loads(out.read_text())

  def key(self, drawn: Drawn) -> str:
    texts = [read(x) for x in (drawn[0], *near(drawn[0]))]
    words = repr((drawn, texts, self._seconds)).encode()
    return hashlib.sha256(words).hexdigest()[:16]

  def __call__(self, copy: planting.Copy, drawn: Drawn) -> dict[str, Any]:
    file, edit = drawn
    old, work, ran = read(file), 0.0, []
    new = edit.applied(old)
    row = {'file': file, 'line': edit.line, 'operator': edit.operator}
    row |= {'outcome': 'survived', 'who': ''}
    for tests in near(file):
      if work > self._seconds:
        break
      outcome = self._plain.get(_text_key(tests), 'passed')
      if outcome == 'cannot run' and tests == nearest.mirror(file):
        row['outcome'] = 'skipped'
        break
      if outcome != 'passed':
        continue
      with copy.planted(file, new):
        found = copy.run(tests, self._limit)
      work += found.work
      ran.append(tests)
      if found.outcome == 'skipped':  # all of them are slow, or cannot run here
        lacks = tests == nearest.mirror(file) and _SKIPPED.search(found.text)
        self._plain[_text_key(tests)] = 'cannot run' if lacks else 'skipped'
        if lacks:
          row['outcome'] = 'skipped'
          break
      elif found.outcome != 'passed' and self._passes(copy, tests):
        row |= {'outcome': 'noticed', 'who': found.who or found.outcome}
        break
    row |= {'seconds': round(work, 1), 'tests': ran}
    row['diff'] = edits.patch(file, old, new)
    with self._lock:
      self.rows[self.key(drawn)] = row
      text = json.dumps([self.rows, self._plain], indent=1)
      self._out.write_text(text)
    return row

  def _passes(self, copy: planting.Copy, tests: str) -> bool:
    """Whether tests pass without a mistake, far from the limit of time."""
    key = _text_key(tests)
    if key not in self._plain:
      found = copy.run(tests, self._limit)
      late = found.seconds > self._limit / 2
      self._plain[key] = 'late' if late else found.outcome
    return self._plain[key] == 'passed'


def near(file: str) -> list[str]:
  """Files of tests, in the order in which they are run."""
  tests = nearest.tests(file)
  named, last = laws.tests(file), [x for x in LAST if x in tests]
  return list(dict.fromkeys([*tests[:1], *named, *tests[1:MOST], *last]))


def _text_key(tests: str) -> str:
  return hashlib.sha256(f'{tests}{read(tests)}'.encode()).hexdigest()[:16]


def mistakes() -> Iterator[Drawn]:
  names = nearest.modules(tuple(_MODULES.value), tuple(_WITHOUT.value))
  names = [x for x in names if re.search(_ONLY.value, x)]
  if _LAWS.value:
    chosen = [x for x in laws.listed() if x.file in names]
    yield from ((x.file, laws.edit(read(x.file), x)) for x in chosen)
    return
  lines = None
  if _SINCE.value:
    words = ['git', 'diff', '-U0', _SINCE.value, '--', 'agentrl']
    lines = changed(subprocess.check_output(words, cwd=ROOT, text=True))
    names = [x for x in names if x in lines]
  for i, drawn in enumerate(draw(names, _SEED.value, lines)):
    if i == _COUNT.value != 0:
      return
    yield drawn


def main(argv: Sequence[str]) -> int:
  OWN.mark_as_parsed()  # as part of all flags
  if len(argv) > 1:
    raise app.UsageError(f'{argv[1]!r} is not a flag; use --only=REGEX')
  chosen = list(mistakes())
  judge = Judge(pathlib.Path(_OUT.value), _SECONDS.value, _LIMIT.value)
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
  rows = [x for x in rows if x['outcome'] != 'skipped']
  survived = [x for x in rows if x['outcome'] == 'survived']
  for row in survived:
    print(f'\n{row["operator"]}, {", ".join(row["tests"])}\n{row["diff"]}')
  share = 1 - len(survived) / max(len(rows), 1)
  print(
    f'{share:.1%} of {len(rows)} mistakes were noticed; the tests of'
    f' {len(chosen) - len(rows)} cannot run here; {_OUT.value}'
  )
  return int(_LAWS.value and bool(survived))


if __name__ == '__main__':
  flags.FLAGS.append_flag_values(OWN)
  app.run(main)
