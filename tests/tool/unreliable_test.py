"""Rates, persistence and terms of unreliable tools."""

import collections
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.tool import unreliable
from agentrl.tool.base import ToolError
from agentrl.tool.calculator import evaluate
from agentrl.tool.unreliable import Offer, UnreliableTool, offers, wrong
from tests import errors

N = 2000


def within(count, n, p, sigmas=4.5):
  """Whether a count of n is one of a binomial with chance p."""
  return abs(count - n * p) <= sigmas * math.sqrt(n * p * (1 - p)) + 1e-9


def query(offer, text, seed, turn=0):
  """The record of a call, and its text or fault."""
  uses = []
  tool = UnreliableTool(offer, '', evaluate, seed, lambda: turn, uses.append)
  try:
    text = tool(text)
  except ToolError as fault:
    text = fault.text
  (use,) = uses
  return use, text


@pytest.mark.parametrize(('failures', 'errors'), [(0, 0.3), (0.4, 0), (0.2, 1)])
def test_rates_are_those_stated(failures, errors):
  offer = Offer('t', 1, 1, failures, errors)
  uses = [query(offer, '17*23', seed)[0] for seed in range(N)]
  failed = sum(use.failed for use in uses)
  assert within(failed, N, failures)
  assert within(sum(use.wrong for use in uses), N - failed, errors)


def test_every_wrong_digit_is_equally_likely():
  offer = Offer('t', 1, 1, 0, 1)
  counts = collections.Counter(
    query(offer, '17*23', seed)[0].answer for seed in range(N)
  )
  assert set(counts) == set(range(390, 400)) - {391}
  assert all(within(n, N, 1 / 9) for n in counts.values())


def test_a_tool_without_faults_has_none():
  offer = Offer('t', 1, 1, 0, 0)
  for seed in range(50):
    use, text = query(offer, '1/3', seed)
    assert text.startswith('1/3')
    assert not use.failed
    assert not use.wrong


def test_the_same_words_get_the_same_answer():
  """Spaces are not words, and a later turn changes nothing."""
  offer = Offer('t', 1, 1, 0, 0.5)
  for seed in range(100):
    answers = {
      query(offer, text, seed, turn)[1]
      for text in ('17*23', ' 17 * 23')
      for turn in (0, 3)
    }
    assert len(answers) == 1


@pytest.mark.parametrize('other', ['(17*23)', '23*17'])
def test_other_words_are_drawn_anew(other):
  offer = Offer('t', 1, 1, 0, 0.5)
  both = sum(
    query(offer, '17*23', seed)[0].wrong and query(offer, other, seed)[0].wrong
    for seed in range(N)
  )
  assert within(both, N, 0.25)


def test_a_failure_passes_and_tools_differ():
  a, b = (Offer(name, 1, 1, 0.5, 0) for name in 'ab')
  first = [query(a, '2+3', seed, 0)[0].failed for seed in range(N)]
  later = [query(a, '2+3', seed, 1)[0].failed for seed in range(N)]
  other = [query(b, '2+3', seed, 0)[0].failed for seed in range(N)]
  for failed in (later, other):
    both = sum(x and y for x, y in zip(first, failed, strict=True))
    assert within(both, N, 0.25)
  assert first == [query(a, '2+3', seed, 0)[0].failed for seed in range(N)]


def test_a_failed_call_has_a_text_and_a_kind():
  offer = Offer('flaky', 1, 1, 0.99, 0)
  tool = UnreliableTool(offer, '', evaluate, 0, lambda: 0, lambda use: None)
  with pytest.raises(ToolError) as fault:
    tool('2+3')
  assert fault.value.kind == 'error'


def test_an_argument_without_an_answer_is_recorded_too():
  use, text = query(Offer('t', 1, 1, 0.9, 1), '2+', 0)
  assert 'the expression is invalid' in text
  assert (use.right, use.answer) == (None, None)
  assert not use.failed
  assert not use.wrong


@given(
  st.fractions(-(10**9), 10**9, max_denominator=7),
  st.floats(0, 1, exclude_max=True),
)
def test_a_wrong_answer_is_within_the_same_ten(right, u):
  answer = wrong(right, u)
  assert answer != right
  assert answer // 10 == right // 10
  assert answer.denominator == right.denominator


def test_offers_are_read_and_shown():
  assert offers(unreliable.EXAMPLE) == (
    ('exact', 1, 8, 0, 0),
    ('cheap', 0.1, 1, 0, 0.3),
  )
  (flaky,) = offers(' flaky .7 1 .4 .1')
  assert unreliable.shown(flaky) == '$0.7 1s fails 40% wrong 10%'


@pytest.mark.parametrize(
  'text',
  [
    '',
    'exact',
    'exact 1 8 0',
    'exact 1 8 0 0 0',
    'exact 1 8 0 x',
    'exact 1 8 0 0,',
    'Exact 1 8 0 0',
    'answer 1 8 0 0',
    'think 1 8 0 0',
    'a<b 1 8 0 0',
    'exact -1 8 0 0',
    'exact 1 inf 0 0',
    'exact nan 8 0 0',
    'exact 1 8 1 0',
    'exact 1 8 0 1.1',
    'exact 1 8 nan 0',
    'a 1 1 0 0, a 2 1 0 0',
    ','.join(f't{i} 1 1 0 0' for i in range(unreliable.MOST + 1)),
  ],
)
def test_bad_offers_are_refused_in_one_sentence(text):
  with errors.raises(ValueError, 'tools') as e:
    offers(text)
  assert '\n' not in str(e.value)
