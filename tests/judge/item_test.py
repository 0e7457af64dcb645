"""Items: what of a trajectory a judge sees, and which scores are scores."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.judge import item
from agentrl.judge.item import JudgeFault
from agentrl.text.message import AGENT, Message
from tests import errors
from tests.judge.items import TALK, WHOLE, item_of

TURNS = st.lists(st.text(max_size=3), min_size=1, max_size=8).map(
  lambda x: x + x[:1] * (len(x) % 2)
)


def test_a_turn_is_seen_with_what_was_before_it_and_the_answer():
  for k in range(3):
    one = WHOLE._replace(turn=k)
    assert one.here == WHOLE.turns[k]
    assert one.answer == (TALK[2 * k + 2] if k < 2 else '')
    seen = [x.content for x in item.transcript(one)]
    assert seen == list(TALK[: 2 * k + 3])
  assert (WHOLE.here, WHOLE.answer) == (WHOLE.turns[-1], '')
  assert [x.content for x in item.transcript(WHOLE)] == list(TALK)


@given(TURNS, st.data())
def test_a_window_is_the_end_of_the_transcript(talk, data):
  turns = len(talk) // 2
  one = item_of(*talk, turn=data.draw(st.integers(-1, turns - 1)))
  every = list(item.transcript(one))
  seen = turns if one.turn < 0 else one.turn + 1
  roles = ['user', AGENT] * seen + ['user'] * bool(one.answer)
  texts = talk[: 2 * seen] + [one.answer] * bool(one.answer)
  assert every == [*map(Message, roles, texts)]
  for window in range(1, turns + 2):
    count = 2 * min(window, seen) + bool(one.answer)
    assert list(item.transcript(one, window=window)) == every[-count:]


def test_contents_have_one_id_and_differ_in_it():
  """Also where texts would be equal, put after each other."""
  talks = [
    ('a', 'b'),
    ('ab', ''),
    ('', 'ab'),
    ('a', 'b', 'c', 'd'),
    ('b', 'a'),
    ('a", "b', ''),
    ('[user] a', 'b'),
    ('\ud800', 'b'),
  ]
  keys = {}
  for talk in talks:
    for turn in (-1, 0):
      key = item.content_key(item_of(*talk, turn=turn))
      assert 0 <= key < 2**63
      keys[talk, turn] = key
  assert len(set(keys.values())) == len(keys)
  a, b = item_of('a', 'b'), item_of('b', 'a')
  assert item.content_key((a, b)) != item.content_key((b, a))
  assert item.content_key((a,)) == item.content_key(a)


def test_what_the_judge_does_not_see_is_not_in_the_id():
  one = item_of(*TALK, turn=0)
  later = item_of(*TALK[:4], 'else', 'where', turn=0, outcome=0.0)
  assert item.content_key(one) == item.content_key(later)
  answered = item_of(*TALK[:2], 'no', 'x', turn=0)
  assert item.content_key(one) != item.content_key(answered)


NUMBERS = (0, 1, True, 0.5, -3.0, np.float32(0.25), np.int64(7), Fraction(1, 4))


@pytest.mark.parametrize('x', NUMBERS)
def test_numbers_are_scores(x):
  assert item.scores(x, None) == [float(x)]
  assert item.scores([x, 0.0], 2) == [float(x), 0.0]


def test_sequences_are_scores_and_nan_in_them_is_none():
  rows = ([0.5, 1], (0.5, 1.0), np.array([0.5, 1]))
  for x in (*rows, iter([0.5, 1])):
    assert item.scores(x, 2) == [0.5, 1.0]
  first, second = item.scores([math.nan, 1.0], 2)
  assert math.isnan(first)
  assert second == 1.0


NO_SCORES = (
  None, '', '1', '0.5', b'1', 'nan', [None], ['1'], [[1.0]], {}, {0: 1.0},
  {1.0}, object(), 1j, [1j], math.inf, -math.inf, [math.inf], 10**400,
  [10**400], [], [0.5, 0.5], np.zeros((1, 1)), np.array(['1']),
)  # fmt: skip


@pytest.mark.parametrize('x', [*NO_SCORES, math.nan])
def test_anything_else_is_a_fault(x):
  with pytest.raises(JudgeFault):
    item.scores(x, None if isinstance(x, float) else 1)


def test_there_are_as_many_as_had_to_be():
  for given_count, count in itertools.product(range(4), (1, 2, None)):
    wanted = 1 if count is None else count
    if given_count == wanted:
      assert item.scores([0.5] * given_count, count) == [0.5] * wanted
    else:
      with errors.raises(JudgeFault, f'{given_count}'):
        item.scores([0.5] * given_count, count)
  with errors.raises(JudgeFault, '1 3'):
    item.scores(0.5, 3)


def test_a_fault_shows_the_beginning_of_what_was_given():
  with pytest.raises(JudgeFault) as fault:
    item.scores('x' * 10_000, 1)
  assert len(str(fault.value)) < 200
