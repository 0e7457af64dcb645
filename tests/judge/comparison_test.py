"""Comparisons within a group: places, strengths, draws and faults."""

import itertools
import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.judge import comparison
from agentrl.judge.item import JudgeFault
from agentrl.service.base import ServiceFault
from tests.judge.items import (
  ANSWERS,
  Script,
  asked,
  cases,
  is_share,
  item_of,
  refuse,
)


def group_of(n):
  return tuple(item_of('task', f'try {i}.', 'ok', 'done') for i in range(n))


def pair_of(prompt):
  """Who stands first and who second in a prompt."""
  first, second = re.findall(r'try (\d+)\.', prompt)
  return int(first), int(second)


def means(share, n):
  """By definition: share[i, j] that i wins against j, None where unknown."""
  out = []
  for i in range(n):
    of = [share[i, j] for j in range(n) if j != i and share[i, j] is not None]
    out.append(sum(of) / len(of) if of else math.nan)
  return out


@pytest.mark.parametrize('n', [2, 3, 6])
def test_who_always_prefers_a_place_says_nothing(n):
  for word in ('1', '2', '0', 'Draw.', '**1**', '(2) since'):
    assert comparison.win_rate(asked(group_of(n), Script(word))) == [0.5] * n


@pytest.mark.parametrize(
  'form',
  """
  {} is better;{} is better because it reaches 24.;Trajectory {} did better.
  {} did the task better.;**{}** is clearly better.;Winner: {};Agent {}
  {{"winner": {}}}
  """.replace('\n', ';').split(';'),
)
def test_the_better_one_may_be_said_in_words(form):
  if form.strip():
    say = lambda prompt: form.strip().format(1 + (pair_of(prompt)[0] > 0))  # noqa: E731
    assert comparison.win_rate(asked(group_of(2), Script(say))) == [1, 0]


@pytest.mark.parametrize(
  'text',
  [
    'I do not think 1 is better',
    'Is 1 is better?',
    '1 is better than 2',
    '1 is better, 2 is better',
    '1 is better at first, but 2 reaches 24',
    '10 is better',
    'Not 0 for a draw',
  ],
)
def test_neither_is_said_to_be_better(text):
  with pytest.raises(JudgeFault):
    comparison.win_rate(asked(group_of(2), Script(text)))


@given(st.lists(st.integers(0, 3), min_size=2, max_size=7))
def test_a_consistent_judge_gives_shares_of_ranks(strength):
  def answer(prompt):
    i, j = pair_of(prompt)
    return '1' if strength[i] > strength[j] else '02'[strength[i] < strength[j]]

  script, n = Script(answer), len(strength)
  got = comparison.win_rate(asked(group_of(n), script))
  for i, x in enumerate(got):
    worse = sum(y < strength[i] for y in strength)
    equal = sum(y == strength[i] for y in strength) - 1
    assert x == pytest.approx((worse + equal / 2) / (n - 1))
  pairs = sorted(map(pair_of, script.prompts))
  assert pairs == sorted(itertools.permutations(range(n), 2))


@pytest.mark.parametrize('seed', range(20))
def test_any_judge_with_faults_by_brute_force(seed):
  """Its answers depend on the order, and some lack."""
  rng = np.random.default_rng(seed)
  n = int(rng.integers(2, 7))
  word = rng.choice(['1', '2', '0', 'who knows', ''], size=(n, n))
  value = {'1': 1.0, '2': 0.0, '0': 0.5}

  def answer(prompt):
    text = word[pair_of(prompt)]
    return text if text else refuse()

  share = {}
  for i, j in itertools.combinations(range(n), 2):
    before, after = value.get(word[i, j]), value.get(word[j, i])
    share[i, j] = share[j, i] = None
    if before is not None and after is not None:
      share[i, j] = (before + 1 - after) / 2
      share[j, i] = 1 - share[i, j]
  if all(x is None for x in share.values()):
    with pytest.raises(ServiceFault):
      comparison.win_rate(asked(group_of(n), Script(answer)))
    return
  got = comparison.win_rate(asked(group_of(n), Script(answer)))
  np.testing.assert_allclose(got, means(share, n))


def test_equal_texts_draw_and_are_not_put():
  a, b = group_of(2)
  script = Script(lambda x: '1' if pair_of(x)[0] == 0 else '2')
  got = comparison.win_rate(asked((a, b, a), script))
  assert got == [0.75, 0.0, 0.75]
  assert len(script.prompts) == 4
  assert comparison.win_rate(asked((a, a), Script(refuse))) == [0.5, 0.5]


def test_equal_texts_are_those_in_the_window():
  a, b = item_of('x', 'l', 'y', 'up'), item_of('x', 'r', 'y', 'up')
  script = Script('1')
  assert comparison.win_rate(asked((a, b), script), window=1) == [0.5, 0.5]
  assert not script.prompts
  comparison.win_rate(asked((a, b), script))
  assert len(script.prompts) == 2


def test_alone_there_is_nobody_to_beat():
  (score,) = comparison.win_rate(asked(group_of(1), Script(refuse)))
  assert math.isnan(score)
  assert comparison.win_rate(asked((), Script(refuse))) == []


NO_PLACES = """
;3;10;12;1st;1.5;1/2;1 or 2;1 and 2;-1;1:2;Neither;I prefer 1;²;１;01;1%
"""


@pytest.mark.parametrize('text', cases(NO_PLACES))
def test_what_is_no_place_is_a_fault(text):
  with pytest.raises(JudgeFault):
    comparison.win_rate(asked(group_of(2), Script(text)))


@settings(max_examples=300)
@given(st.lists(ANSWERS, min_size=6, max_size=6))
def test_any_answers_whatever_give_shares_or_a_fault(texts):
  rest = iter(texts)
  try:
    got = comparison.win_rate(asked(group_of(3), Script(lambda _: next(rest))))
  except ServiceFault:
    return
  assert len(got) == 3
  assert all(is_share(x) or math.isnan(x) for x in got)
