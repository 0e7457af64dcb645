"""Excerpts: which messages, which answers, and what was looked up."""

import pytest

from agentrl.judge import excerpts
from agentrl.judge.item import JudgeFault
from tests import errors
from tests.judge import made_up_items as items

TALK = items.item('task', 'one', 'first', 'two', 'second', 'three')


def test_messages_are_those_that_are_judged():
  assert excerpts.messages(TALK) == ['one', 'two', 'three']
  assert excerpts.messages(TALK._replace(turn=1)) == ['two']


def test_evidence_is_what_came_after_the_task():
  assert excerpts.evidence(TALK) == ['first', 'second']
  assert excerpts.evidence(TALK._replace(turn=0)) == ['first']
  assert excerpts.evidence(TALK._replace(turn=2)) == ['first', 'second']
  assert excerpts.evidence(items.item()) == []


@pytest.mark.parametrize(
  ('text', 'want'),
  [
    ('<a>1</a> <a> 2\n</a>', ['1', '2']),
    ('<a>1<a>2</a>', ['1<a>2']),
    ('<a>1</b> <ab>2</ab>', []),
    ('<a></a>', ['']),
    ('', []),
  ],
)
def test_between_tags(text, want):
  assert excerpts.between(text, 'a') == want


@pytest.mark.parametrize(
  ('messages', 'tag', 'want'),
  [
    (['<answer>x</answer>', 'bye'], 'answer', 'x'),
    (['<answer>x</answer>', '<answer>y</answer>'], 'answer', 'y'),
    (['<think><answer>x</answer></think>'], 'answer', None),
    (['<think>no</think> <answer>x</answer>'], 'answer', 'x'),
    (['one', '<think>no</think> yes '], '', 'yes'),
    (['<answer>x'], 'answer', None),
    ([], '', None),
  ],
)
def test_an_answer_is_the_last_outside_of_thought(messages, tag, want):
  texts = [x for message in messages for x in ('seen', message)]
  assert excerpts.answer(items.item(*texts), tag) == want


def test_gold_answers():
  for value, want in (('x', ('x',)), (['x', 2], ('x', '2')), (0, ('0',))):
    assert excerpts.accepted(items.spoken('', gold=value), 'gold') == want
  for task in ({}, {'gold': []}, {'gold': None}):
    with errors.raises(JudgeFault, 'gold'):
      excerpts.accepted(items.spoken('', **task), 'gold')
