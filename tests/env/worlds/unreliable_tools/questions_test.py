"""Questions against Python's own arithmetic."""

import numpy as np
import pytest

from agentrl.env.worlds.unreliable_tools.questions import KINDS, look_up
from agentrl.tool.base import ToolError
from tests import errors

TABLE = {'p': [7, 12, 5], 'q': [1, 2, 3]}


def drawn(kind, count=50, size=3, largest=30):
  rng = np.random.default_rng(0)
  made = (KINDS[kind].draw(rng, size, largest) for _ in range(count))
  return [x for x in made if x]


def test_expressions_are_evaluated():
  made = drawn('countdown')
  assert len(made) >= 45
  for one in made:
    text = one['question']
    assert KINDS['countdown'].evaluate(one)(text) == eval(text) > 0
    assert len(text) <= 12


def test_columns_are_evaluated():
  for one in drawn('table'):
    operation, name = one['question'].split()
    right = {'sum': sum, 'max': max, 'min': min}[operation](one['table'][name])
    assert KINDS['table'].evaluate(one)(one['question']) == right
    assert {len(x) for x in one['table'].values()} == {3}
    assert len(one['table']) == 2


@pytest.mark.parametrize(
  ('text', 'value'),
  [
    ('sum p', 24),
    ('p sum', 24),
    ('SUM(p)', 24),
    ('max of p', 12),
    ('min: q', 1),
  ],
)
def test_words_of_a_lookup_stand_in_any_order(text, value):
  assert look_up(TABLE, text) == value


@pytest.mark.parametrize(
  'text', ['', 'sum', 'p', 'sum r', 'sum p q', 'sum max p']
)
def test_other_lookups_are_refused(text):
  with errors.raises(ToolError, 'sum/max/min p/q'):
    look_up(TABLE, text)
