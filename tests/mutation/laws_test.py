"""Every law still applies; what does not apply is refused."""

import pytest

from tests import errors
from tests.mutation import edits, laws
from tests.mutation.nearest import ROOT

TEXT = '''"""A module."""

RATES = {'a': 1, 'b': 2}


@decorated(1)
def f(x):
  """x + 1"""

  def g(y):
    return y + 1

  return g(x) + x


class C:
  def g(self):
    return 1
'''


def planted(function: str, old: str, new: str) -> str:
  law = laws.Law('a reason', 'm', function, (), old, new)
  return laws.edit(TEXT, law).applied(TEXT)


def test_each_applies_and_its_tests_exist():
  for law in laws.listed():
    text = (ROOT / law.file).read_text(encoding='utf-8')
    new = laws.edit(text, law).applied(text)
    assert edits.changes(text, new), law
    assert all((ROOT / test).exists() for test in law.tests), law


@pytest.mark.parametrize(
  ('function', 'old', 'new'),
  [
    ('RATES', "'b': 2", "'b': 1"),
    ('f', 'decorated(1)', 'decorated(2)'),
    ('f.g', 'y + 1', 'y - 1'),
    ('f', 'g(x) + x', 'g(x)'),
    ('C.g', 'return 1', 'return 2'),
  ],
)
def test_it_is_planted_where_it_says(function, old, new):
  assert planted(function, old, new) == TEXT.replace(old, new, 1)


@pytest.mark.parametrize(
  ('function', 'old'), [('h', 'x'), ('f', 'x + 2'), ('f', 'return')]
)
def test_what_does_not_apply_is_refused(function, old):
  with errors.raises(ValueError, f'm:{function}'):
    planted(function, old, 'y')
