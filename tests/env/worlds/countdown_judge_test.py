"""The script that judges countdown: its planted slips, and what it reads."""

import itertools

import numpy as np
import pytest

from agentrl.env.worlds import countdown_judge
from agentrl.judge import tool_ranking
from agentrl.text.message import Message
from tests.judge.items import item_of

ITEMS = tuple(
  item_of('24: 2 3 4', x)
  for x in ('<answer>2*3*4</answer>', 'hm', '<answer>9+9+6</answer>')
)


def answer(question, evidence=None, begin='Judge.'):
  prompt = tool_ranking.prompt(ITEMS, begin, evidence, question)
  return countdown_judge.answer([Message('user', prompt)], seed=0)


def test_its_arithmetic_slips_at_the_stated_rate_both_ways():
  sums = [*itertools.product(range(1, 40), repeat=2)]
  hits = [countdown_judge.believes(f'{a}+{b}', a + b) for a, b in sums]
  misses = [countdown_judge.believes(f'{a}+{b}', a + b + 1) for a, b in sums]
  np.testing.assert_allclose(np.mean(hits), 1 - countdown_judge.SLIP, atol=0.04)
  np.testing.assert_allclose(np.mean(misses), countdown_judge.SLIP, atol=0.04)


def test_evidence_goes_before_belief_and_rules_before_both():
  for value, worth in (('24', 10), ('23', 2)):
    said = answer(tool_ranking.SCORES, {1: f'2*3*4 = {value}'})
    assert said == f'1: {worth}\n2: 0\n3: 0'
  assert answer(tool_ranking.SCORES).split('\n')[0] in ('1: 8', '1: 3')


def test_it_has_computed_what_advice_names_and_nothing_that_breaks_rules():
  question = tool_ranking.CALLS.format(tool='calculator')
  for begin in (
    'Judge.\nCompute attempts 1, 2.',
    f'Judge.\n{tool_ranking.TIED}',
  ):
    assert answer(question, {}, begin) == '1: 2*3*4'


@pytest.mark.parametrize(
  ('evidence', 'worth'),
  [
    ({}, '3\nCompute attempts 1.'),
    ({1: '2*3*4 = 24'}, '10'),
    ({1: '2*3*4 = 25'}, '0'),
  ],
)
def test_a_pair_is_worth_what_is_known_of_it(evidence, worth):
  assert answer(tool_ranking.PAIR.format(win=1, lose=2), evidence) == worth


def test_another_text_is_refused():
  with pytest.raises(ValueError, match='hello'):
    countdown_judge.answer([Message('user', 'hello')], seed=0)
