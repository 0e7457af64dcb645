"""Judges without a model: columns, and functions of the user, asked once."""

import math
import types

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.judge import item as judge_item
from agentrl.judge import scripted
from agentrl.judge.item import JudgeFault
from agentrl.service.base import ServiceFault
from tests import errors
from tests.judge.items import TALK, WHOLE, Script, asked, item_of, refuse

HERE = __name__
MADE = types.SimpleNamespace(value=None, calls=0)


def made(item):
  """Whatever a test wants."""
  MADE.calls += 1
  return MADE.value


def count_messages(item):
  return len(item.turns) / 10


def each_turn(item):
  return [math.nan if '"' in x.observation else 1.0 for x in item.turns]


def broken(item):
  return {}['a key']


def faulty(item):
  raise JudgeFault('it is too dark to see')


def budgetless(item):
  raise ServiceFault('no more money')


def endless(item):
  return endless(item)


@given(
  st.lists(st.floats(-2, 2), min_size=1, max_size=5),
  st.floats(-2, 2),
  st.data(),
)
def test_a_column_is_good_where_it_is_above(values, above, data):
  turn = data.draw(st.integers(-1, len(values) - 1))
  talk = ['o', 'm'] * len(values)
  terms = [{'progress': x, 'env': 9.0} for x in values]
  item = item_of(*talk, turn=turn, terms=terms)
  got = scripted.column(asked(item, Script(refuse)), above=above)
  assert got == (1.0 if values[turn] > above else 0.0)
  assert type(got) is float


def test_a_column_without_a_value_gives_no_score():
  item = item_of('o', 'm', terms=[{'progress': math.nan}])
  with errors.raises(JudgeFault, 'progress NaN'):
    scripted.column(asked(item, Script(refuse)))


def score(value, item=WHOLE, count=None):
  """The score of a function that returns the value, as it is used."""
  MADE.value = value
  got = scripted.function(asked(item, Script(refuse)), path=f'{HERE}:made')
  return judge_item.scores(got, count)


KINDS = float, np.float64, np.float32, np.array, jnp.float32, jnp.bfloat16
ONES = True, np.True_, 1, np.int32(1)
PAIRS = (
  (0.5, 1.0), np.array([0.5, 1.0]), jnp.array([0.5, 1.0]), [np.float32(0.5), 1],
)  # fmt: skip


def test_numbers_of_any_library_and_sequences_of_them_are_scores():
  assert [score(kind(0.5)) for kind in KINDS] == [[0.5]] * len(KINDS)
  assert [score(x) for x in ONES] == [[1.0]] * len(ONES)
  assert [score(x, count=2) for x in PAIRS] == [[0.5, 1.0]] * len(PAIRS)


NO_SCORES = (
  None, '', '1', 'good', b'1', [], {}, {0: 1.0}, {'a': 1}, {1.0}, [None],
  ['1'], math.nan, math.inf, -math.inf, object(), 1j, 10**400, 10**5000,
  '\ud800', [0.5, 0.5], [[0.5]], np.zeros(2), np.array('1'), np.array(None),
  made,
)  # fmt: skip


@pytest.mark.parametrize('value', NO_SCORES, ids=range(len(NO_SCORES)))
def test_anything_else_is_a_fault(value):
  with pytest.raises(JudgeFault):
    score(value)


@pytest.mark.parametrize(
  ('name', 'why'),
  [
    ('broken', 'broken KeyError key'),
    ('endless', 'endless RecursionError'),
    ('faulty', ''),
    ('budgetless', 'budgetless ServiceFault'),
  ],
)
def test_what_a_function_raises_is_a_fault_that_says_so(name, why):
  with errors.raises(JudgeFault, why):
    scripted.function(asked(WHOLE, Script(refuse)), path=f'{HERE}:{name}')


@pytest.mark.parametrize('path', ['nothing', f'{HERE}:nothing', 'no_module:x'])
def test_a_wrong_path_is_no_fault_of_an_item_but_an_error(path):
  with pytest.raises(ValueError):
    scripted.function(asked(WHOLE, Script(refuse)), path=path)


def test_a_function_may_score_each_turn_of_a_trajectory():
  got = scripted.function(
    asked(WHOLE, Script(refuse)), path=f'{HERE}:each_turn'
  )
  wanted = [1.0, math.nan, 1.0]
  scores = judge_item.scores(got, 3)
  assert scores == pytest.approx(wanted, nan_ok=True)


def test_a_function_is_called_once_for_equal_items():
  ask, path = Script(refuse), f'{HERE}:made'
  MADE.value, MADE.calls = 0.5, 0
  tasks = [
    {'a': 1, 2: [np.arange(3.0)], None: {'x'}},
    {None: {'x'}, 2: [np.arange(3.0)], 'a': 1},
  ]
  for task in tasks:
    item = item_of(*TALK, terms=[{'env': np.float32(1), 'b': 2.0}] * 3)
    got = scripted.function(asked(item._replace(task=task), ask), path=path)
    assert got == 0.5
  assert MADE.calls == ask.computed == 1


def test_items_that_differ_in_anything_are_asked_about_anew():
  """Also in what a model would not see: functions read all of an item."""
  one = item_of(*TALK, terms=[{'env': 0.0}] * 3, a=1, b=np.arange(5000))
  other = np.arange(5000)
  other[2500] = 0  # where its repr is cut
  items = [
    one,
    one._replace(turn=0),
    one._replace(turn=2),
    one._replace(outcome=0.0),
    one._replace(task={'a': 2, 'b': np.arange(5000)}),
    one._replace(task={'a': '1', 'b': np.arange(5000)}),
    one._replace(task={'a': 1, 'b': other}),
    one._replace(turns=one.turns[:2]),
    item_of(*TALK, terms=[{'env': 0.0}] * 2 + [{'env': 0.5}]),
    item_of(*TALK[:-1], 'stop!', terms=[{'env': 0.0}] * 3),
  ]
  ask = Script(refuse)
  MADE.value, MADE.calls = 1.0, 0
  for x in items:
    scripted.function(asked(x, ask), path=f'{HERE}:made')
  assert MADE.calls == len(items)
  scripted.function(asked(one, ask), path=f'{HERE}:count_messages')
  assert ask.computed == len(items) + 1


def test_a_fault_is_not_remembered():
  ask, path = Script(refuse), f'{HERE}:made'
  MADE.value, MADE.calls = object(), 0
  for _ in range(2):
    with pytest.raises(JudgeFault):
      scripted.function(asked(WHOLE, ask), path=path)
  assert MADE.calls == 2


def test_the_default_function_is_the_outcome():
  for outcome in (0.0, 0.25, 1.0):
    item = WHOLE._replace(outcome=outcome, turn=1)
    assert scripted.function(asked(item, Script(refuse))) == outcome
