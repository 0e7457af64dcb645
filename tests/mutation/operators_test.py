"""A draw is of its seed and even; tests are the nearest."""

import collections
import itertools
import json

from tests.mutation import edits, nearest, operators, planting

SOME = ('agentrl/loss/gates.py', 'agentrl/ops/kl.py', 'agentrl/segment.py')


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
  tests = nearest.tests('agentrl/loss/gates.py', 3)
  assert tests[0] == 'tests/loss/gates_test.py'
  place = tests.index
  assert place('tests/loss/nll_test.py') < place('tests/memory/replay_test.py')
  assert len(set(tests)) == len(tests)
  assert len(nearest.tests('agentrl/loss/gates.py', 1)) < len(tests)


def test_tests_of_a_program_lie_beside_it():
  tests = nearest.tests('agentrl/tool/sandbox/native/__main__.py', 3)
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
    return planting.Ran('failed' if fails else 'passed', 1.0, who, '')


def test_a_mistake_meets_the_nearest_tests_until_one_notices(tmp_path):
  out = tmp_path / 'out.json'
  mistake = drawn(0, 1)[0]
  tests = nearest.tests(mistake[0], 3)
  judge = operators.Judge(out, seconds=5.5, steps=3)
  row = judge(Copy(tests[2]), mistake)
  assert (row['outcome'], row['who']) == ('noticed', f'{tests[2]}::test')
  assert row['tests'] == tests[:3]
  # Tests that were run without a mistake are not again, also later.
  later, copy = operators.Judge(out, seconds=5.5, steps=3), Copy('')
  assert judge.key(mistake) in later.rows
  row = later(copy, mistake)
  assert row['outcome'] == 'survived'
  assert row['tests'] == tests[:5]
  assert copy.runs[:3] == tests[:3]
  assert copy.runs[3:] == [tests[3]] * 2 + [tests[4]] * 2 + [tests[5]]
  assert len(json.loads(out.read_text())) == 2
