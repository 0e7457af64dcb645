"""The value against enumeration without symmetries, and closed forms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.env.worlds.unreliable_tools import value as expert
from agentrl.env.worlds.unreliable_tools.value import Terms
from agentrl.tool.unreliable import Offer, offers

RATES = st.floats(0, 1)
COSTS = st.floats(0, 0.5)
DEFAULT = offers('exact 1 8 0 0, cheap .1 1 0 .3, flaky .7 1 .4 0')


def enumerated(terms, left, belief=None, first=True):
  """V by every answer in order; belief: chances of ten digits, not scaled."""
  belief = np.full(10, 0.1) if belief is None else belief
  best = 0.0 if first else belief.max()
  if not left:
    return best
  for e, cost in zip(*terms, strict=True):
    total = -cost * belief.sum()
    for digit in range(10):
      after = belief * np.where(np.arange(10) == digit, 1 - e, e / 9)
      if after.any():
        total += enumerated(terms, left - 1, after, False)
    best = max(best, total)
  return best


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(RATES, COSTS), min_size=1, max_size=2))
def test_it_is_that_of_every_answer_in_order(tools):
  terms = Terms(*zip(*tools, strict=True))
  value = enumerated(terms, expert.ANSWERS)
  assert expert.value(terms, ()) == pytest.approx(value, abs=1e-9)


def test_two_cheap_answers_and_a_sure_one_where_they_differ():
  """By hand, for the default tools and weights."""
  terms = expert.weigh(DEFAULT, 0.1, 0.01)
  sure = (0.07 + 0.01) / 0.6
  differ = 1 - 0.49 - 0.01
  value = 0.99 - 2 * 0.02 - differ * sure
  assert expert.value(terms, ()) == pytest.approx(value)
  assert expert.choice(terms, ()) == 1
  assert expert.choice(terms, ((1, 1),)) is None
  assert expert.choice(terms, ((1,), (1,))) == 2


def test_dear_tools_are_left_alone():
  terms = expert.weigh(DEFAULT, 100.0, 0.0)
  assert expert.value(terms, ()) == 0
  assert expert.choice(terms, ()) is None


def test_a_posterior_is_bayes():
  terms = Terms((0.3, 0.1), (0.0, 0.0))
  first, second, other = expert.posterior(terms, ((0,), (1,)))
  weights = np.array([0.7 * 0.1 / 9, 0.9 * 0.3 / 9, *[0.3 / 9 * 0.1 / 9] * 8])
  weights /= weights.sum()
  np.testing.assert_allclose([first, second, other], weights[:3])


def test_hundreds_of_answers_do_not_underflow():
  terms = Terms((0.3,), (0.0,))
  chance, _, _ = expert.posterior(terms, ((0,) * 700, (0,) * 300))
  assert chance == pytest.approx(1)


def test_votes_are_by_candidate():
  answers = {(1, 'x'): 386, (0, '(x)'): 389, (0, 'x'): 386}
  assert expert.votes(answers) == ((0,), (0, 1))


def test_a_failing_tool_is_paid_until_it_answers():
  terms = expert.weigh([Offer('t', 2, 3, 0.5, 0.1)], 0.1, 0.01)
  assert terms == ((0.1,), (pytest.approx((0.2 + 0.03) / 0.5),))
