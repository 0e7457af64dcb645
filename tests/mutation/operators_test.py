"""A draw is of its seed and even; tests are the nearest."""

import collections
import itertools
import json

from tests.mutation import edits, nearest, operators, planting

SOME = ('agentrl/loss/gates.py', 'agentrl/ops/kl.py', 'agentrl/mesh.py')


def drawn(seed: int, count: int, lines=None) -> list[operators.Drawn]:
  return list(itertools.islice(operators.draw(SOME, seed, lines), count))


def test_a_draw_is_of_its_seed():
  assert drawn(1, 9) == drawn(1, 30)[:9] != drawn(2, 9)


def test_a_draw_is_even_over_files_and_without_repetition():
  mistakes = drawn(3, 30)
  counts = collections.Counter(file for file, _ in mistakes)
  assert set(counts.values()) == {10}
  assert len(set(mistakes)) == 30
  assert len({edit.operator for _, edit in mistakes}) == len(edits.OPERATORS)


def test_of_changed_lines_only():
  diff = '--- a/x\n+++ b/agentrl/ops/kl.py\n@@ -1,2 +10,14 @@\n@@ -9 +40 @@\n'
  lines = operators.changed(diff)
  assert lines == {'agentrl/ops/kl.py': {*range(10, 24), 40}}
  lines |= {file: set() for file in SOME if file not in lines}
  mistakes = drawn(0, 500, lines)
  assert mistakes
  assert {edit.line for _, edit in mistakes} <= lines['agentrl/ops/kl.py']


def test_the_nearest_tests_are_the_mirror_then_by_imports():
  tests = nearest.tests('agentrl/loss/gates.py')
  assert tests[0] == 'tests/loss/gates_test.py'
  place = tests.index
  assert place('tests/loss/nll_test.py') < place('tests/memory/replay_test.py')
  assert len(set(tests)) == len(tests)


def test_tests_of_a_program_lie_beside_it():
  tests = nearest.tests('agentrl/tool/sandbox/native/__main__.py')
  assert 'tests/tool/sandbox/native/command_test.py' in tests


class Copy:
  """Its tests notice what they are asked to, and take a second."""

  def __init__(self, notices: str):
    self.notices, self.planted_now, self.runs = notices, False, []

  def planted(self, file, text):
    del file, text
    return self

  def __enter__(self):
    self.planted_now = True

  def __exit__(self, *_):
    self.planted_now = False

  def run(self, tests, limit):
    del limit
    self.runs.append(tests)
    fails = self.planted_now and tests == self.notices
    who = f'{tests}::test' if fails else ''
    return planting.Ran('failed' if fails else 'passed', 1.0, who, '', 1.0)


def test_a_mistake_meets_the_nearest_tests_until_one_notices(tmp_path):
  out = tmp_path / 'out.json'
  mistake = drawn(0, 1)[0]
  tests = operators.near(mistake[0])
  judge, copy = operators.Judge(out, seconds=4.5, limit=60), Copy(tests[2])
  row = judge(copy, mistake)
  assert (row['outcome'], row['who']) == ('noticed', f'{tests[2]}::test')
  assert copy.runs == [*tests[:3], tests[2]]  # it passes without the mistake
  # What was judged is remembered; the tests have so many seconds.
  later, copy = operators.Judge(out, seconds=4.5, limit=60), Copy('')
  assert judge.key(mistake) in later.rows
  row = later(copy, mistake)
  assert row['outcome'] == 'survived'
  assert row['tests'] == copy.runs == tests[:5]
  assert len(json.loads(out.read_text())) == 2


def test_tests_that_fail_anyway_notice_nothing(tmp_path):
  class Broken(Copy):
    def run(self, tests, limit):
      super().run(tests, limit)
      return planting.Ran('failed', 1.0, 'x', '', 1.0)

  judge = operators.Judge(tmp_path / 'out.json', seconds=1.5, limit=60)
  row = judge(Broken(''), drawn(0, 1)[0])
  assert row['outcome'] == 'survived'


def test_what_cannot_be_tested_here_is_not_counted(tmp_path):
  class Lacking(Copy):
    def run(self, tests, limit):
      super().run(tests, limit)
      return planting.Ran('skipped', 1.0, '', '1 skipped in 0.1s', 1.0)

  judge, copy = (
    operators.Judge(tmp_path / 'out.json', seconds=5, limit=60),
    Lacking(''),
  )
  for mistake in drawn(0, 2):
    assert judge(copy, mistake)['outcome'] == 'skipped'
  assert len(copy.runs) == 2
