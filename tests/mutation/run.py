"""Plants the mutants one by one and says which of them the tests notice.

  python -m tests.mutation.run
  python -m tests.mutation.run --only=losses --afresh

Nothing is planted in the repository itself: every worker has a copy. The
tests that are named run once without any mutant before; they must pass. What
was judged before is not judged again as long as the mutant, its module and
its tests stay as they are. Ends with 1 if too few are noticed.
"""

import hashlib
import itertools
import json
import pathlib
import re
import tempfile
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from absl import app, flags

from tests.mutation import listed, mutant, planting
from tests.mutation.mutant import ROOT, Mutant

WANTED = 0.97  # share of mutants that are to be noticed
WORDS = {'passed': 'survived', 'failed': 'noticed'}  # of a mutant's tests

_ONLY = flags.DEFINE_string('only', '', 'regular expression of names')
_OUT = flags.DEFINE_string(
  'out',
  str(pathlib.Path(tempfile.gettempdir(), 'agentrl-mutation.json')),
  'what was judged, as JSON; read at the start and added to',
)
_AFRESH = flags.DEFINE_bool('afresh', False, 'judges what was judged before')
_WORKERS = flags.DEFINE_integer('workers', 2, 'copies that are tested at once')
_LIMIT = flags.DEFINE_float('limit', 240.0, 'seconds for the tests of a mutant')

Rows = dict[str, dict[str, Any]]  # by name


def key(m: Mutant) -> str:
  """Other than before if the mutant, its module or its tests are."""
  files = [mutant.path(m), *(x.split('::')[0] for x in m.tests.split())]
  texts = [(ROOT / file).read_bytes() for file in _flat(files)]
  return hashlib.sha256(repr((m, texts)).encode()).hexdigest()[:16]


def _flat(names: Sequence[str | pathlib.Path]) -> list[pathlib.Path]:
  """Files, and those of folders."""
  found = []
  for name in names:
    below = sorted((ROOT / name).rglob('*.py'))
    found += below or [ROOT / name]
  return found


def row(m: Mutant, ran: planting.Ran) -> dict[str, Any]:
  return {
    'key': key(m),
    'outcome': WORDS.get(ran.outcome, ran.outcome),
    'seconds': round(ran.seconds, 1),
    'who': ran.who,
    'reason': m.reason,
  }


def diff(m: Mutant) -> str:
  """The mutant as a patch."""
  file = mutant.path(m)
  old = (ROOT / file).read_text(encoding='utf-8')
  return mutant.patch(file, old, mutant.planted(old, m))


def table(rows: Rows) -> str:
  lines = [
    f'{r["outcome"]:9} {r["seconds"]:6.1f} s  {name}  {r["who"]}'
    for name, r in rows.items()
  ]
  return '\n'.join(lines)


def rate(rows: Rows) -> float:
  """Share of those that were noticed, among those whose tests can run here."""
  judged = [r for r in rows.values() if r['outcome'] != 'skipped']
  noticed = sum(r['outcome'] != 'survived' for r in judged)
  return noticed / max(len(judged), 1)


def by_file(named: Iterable[str]) -> list[str]:
  """All that is named, a string for each file."""
  files: dict[str, dict[str, None]] = {}
  for node in itertools.chain(*(x.split() for x in named)):
    files.setdefault(node.partition('::')[0], {})[node] = None
  return [
    file if file in nodes else ' '.join(nodes) for file, nodes in files.items()
  ]


def judge(
  mutants: dict[str, Mutant], folder: pathlib.Path, keep: Callable
) -> None:
  """keep(name, row) for each of them."""
  copies = []
  for i in range(min(_WORKERS.value, len(mutants))):
    copies.append(planting.Copy(folder / str(i)))
  tests = by_file(m.tests for m in mutants.values())
  print(f'{len(tests)} files of tests without a mutant')
  plain = lambda copy, tests: copy.run(tests, 4 * _LIMIT.value)  # noqa: E731
  for names, ran in planting.each(copies, plain, tests):
    print(f'{ran.outcome:9} {ran.seconds:6.1f} s  {names}', flush=True)
    if ran.outcome not in ('passed', 'skipped'):
      raise SystemExit(
        f'without a mutant they do not pass:\n{ran.text[-3000:]}'
      )
  planting.share(copies)
  print(f'{len(mutants)} mutants')
  with_ = lambda copy, name: copy.judge(mutants[name], _LIMIT.value)  # noqa: E731
  for name, ran in planting.each(copies, with_, list(mutants)):
    found = row(mutants[name], ran)
    print(table({name: found}), flush=True)
    keep(name, found)
  for copy in copies:
    copy.close()


def main(argv: Sequence[str]) -> int:
  if len(argv) > 1:
    raise app.UsageError(f'{argv[1]!r} is no flag; use --only=REGEX')
  chosen = {
    name: m
    for name, m in listed.mutants().items()
    if re.search(_ONLY.value, name)
  }
  out = pathlib.Path(_OUT.value)
  known: Rows = json.loads(out.read_text()) if out.exists() else {}
  left = {
    name: m
    for name, m in chosen.items()
    if _AFRESH.value or known.get(name, {}).get('key') != key(m)
  }

  def keep(name: str, found: dict[str, Any]) -> None:
    known[name] = found
    out.write_text(json.dumps(known, indent=1))

  if left:
    with tempfile.TemporaryDirectory() as folder:
      judge(left, pathlib.Path(folder), keep)
  rows = {name: known[name] for name in chosen}
  print('\n' + table(rows))
  for name, r in rows.items():
    if r['outcome'] == 'survived':
      print(f'\n{name}: {r["reason"]}\n{diff(chosen[name])}', end='')
  slow, skipped = (
    sum(r['outcome'] == x for r in rows.values()) for x in ('time', 'skipped')
  )
  print(
    f'\n{rate(rows):.1%} of {len(rows) - skipped} mutants were noticed, {slow}'
    f' of them by a time limit; the tests of {skipped} cannot run here; {out}'
  )
  return rate(rows) < WANTED


if __name__ == '__main__':
  app.run(main)
