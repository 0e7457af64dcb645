"""Demonstrations: which tools they call, where, and why."""

import numpy as np
import pytest

from agentrl.env.worlds.unreliable_tools import demonstrations, questions
from agentrl.env.worlds.unreliable_tools.env import UnreliableTools

OFFERS = (('a', 1, 1, 0, 0), ('b', 0, 1, 0, 0.3), ('c', 2, 1, 0, 0))


def test_tools_of_every_way():
  def rng():
    return np.random.default_rng(0)

  costs = (1.0, 0.0, 2.0)
  for way in ('sure', 'needed'):
    assert demonstrations.tools(OFFERS, costs, way, rng()) == ('a',)
  assert demonstrations.tools(OFFERS, costs, 'never', rng()) == ()
  some = rng()
  seen = {demonstrations.tools(OFFERS, costs, 'every', some) for _ in range(50)}
  assert seen == {('a',), ('b', 'a'), ('c', 'a')}
  faulty = OFFERS[1:2]
  assert demonstrations.tools(faulty, (0.0,), 'sure', rng()) is None
  assert demonstrations.tools(faulty, (0.0,), 'never', rng()) == ()


def test_a_question_is_easy_by_its_largest_number():
  for question, small, want in (
    ('3+4*2', 4, True),
    ('3+4*2', 3, False),
    ('13-4', 9, False),
    ('0', 0, False),
  ):
    assert questions.easy(question, small) == want


@pytest.mark.parametrize('way', demonstrations.WAYS)
def test_calls_on_easy_and_hard_questions(way):
  family = UnreliableTools(size=2, largest=99, small=12, demonstrate=way)
  env, calls, easy = family.env(), {True: 0, False: 0}, []
  for task, messages, _ in family.tasks('train', 60, 0):
    env.reset(task, 0)
    replies = [env.step(x) for x in messages]
    *_, last = replies
    assert (last.done, last.score) == (True, 1)
    small = (
      max(
        map(
          int, task['question'].replace('-', '+').replace('*', '+').split('+')
        )
      )
      <= 12
    )
    total = sum(r.info['calls'] for r in replies)
    assert sum(r.info['needless_calls'] for r in replies) == small * total
    assert (last.info['easy'], last.info['unaided']) == (small, not total)
    thinks = way == 'needed'
    assert messages[0].startswith('<think>') == thinks
    assert not thinks or ('small' in messages[0]) == small
    calls[small] += total
    easy.append(small)
  env.close()
  assert 0.3 < np.mean(easy) < 0.7
  assert bool(calls[True]) == (way in ('sure', 'every'))
  assert bool(calls[False]) == (way != 'never')
