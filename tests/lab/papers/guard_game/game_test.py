"""The guards' game by hand, and a visitor's way through it."""

import json

import pytest

from agentrl.lab.archive import Archive, Entry
from agentrl.lab.papers.guard_game import game, visitor
from agentrl.lab.papers.guard_game.game import Guard, Visit
from agentrl.service.base import ServiceFault
from agentrl.text.message import Message
from tests import errors

A, B, C, D = game.REQUESTS[:4]
ASK, OTHER = game.ASKS[:2]
GUARD = Guard('mill', 'shy', (A, B, C), ASK)
NOTHING = dict.fromkeys(visitor.ROLES, Archive())


def said(*texts, guard=GUARD, queries=30):
  now = Visit(guard, queries)
  return [now.say(x) for x in texts], now


def test_the_word_is_told_after_the_order_and_the_right_question():
  got, now = said(A, B, C, ASK)
  assert got == [True] * 4
  assert now.open
  assert now.left == 26


@pytest.mark.parametrize(
  'texts',
  [
    (ASK,),
    (A, B, ASK),
    (A, C, B, ASK),
    (A, B, C, OTHER),
    (A, B, C, OTHER, ASK),
    (A, B, D, C, ASK),
    (A, B, C, C, ASK),
    (A, B, C, 'x', ASK),
  ],
)
def test_after_anything_else_one_begins_anew(texts):
  got, now = said(*texts)
  assert not now.open
  assert not got[-1]
  assert said(*texts, A, B, C, ASK)[1].open


def test_an_easy_guard_tells_whoever_asks_well():
  easy = GUARD._replace(order=())
  assert said(ASK, guard=easy)[1].open
  got, now = said(D, OTHER, ASK, guard=easy)
  assert got == [True, False, True]
  assert now.open
  left = Visit(GUARD, 9)
  left.say(A)
  left.leave()
  assert not left.say(B)


def test_queries_end():
  _, now = said(A, queries=1)
  with errors.raises(ValueError, 'queries'):
    now.say(B)


def test_customs_are_of_post_and_temper():
  guards = game.draw(2000, 3)
  easy = sum(not x.order for x in guards) / 2000
  assert abs(easy - game.EASY) < 0.03
  for post in game.POSTS:
    first = [x.order[0] for x in guards if x.post == post and x.order]
    common = max({*first}, key=first.count)
    assert 0.8 < first.count(common) / len(first) < 1
  assert game.draw(5, 3) == guards[:5]
  assert game.draw(5, 4) != guards[:5]


def remembered(*texts, post='mill', temper='shy', value=1.0):
  about = json.dumps({'post': post, 'temper': temper})
  return Entry(json.dumps(texts), value, 4, about)


def test_roles_say_what_worked_for_their_own_trait():
  memory = Archive((
    remembered(A, D, D, OTHER, temper='calm'),
    remembered(D, B, C, ASK, post='tower'),
    remembered(D, D, D, OTHER, post='tower', temper='calm'),
    remembered(B, value=0.25),
  ))  # fmt: skip
  own = visitor.recalled(memory, GUARD)
  assert len(own.entries) == 3
  came = visitor.visit(
    GUARD, visitor.SCRIPTED, dict.fromkeys(visitor.ROLES, memory), 20, 0
  )
  assert (came.open, came.queries) == (True, 4)
  assert json.loads(came.entry.text) == [A, B, C, ASK]
  assert came.entry.value == 1


def test_a_planner_without_memory_has_to_search():
  memory = Archive((remembered(A, B, C, ASK),))
  memories = dict.fromkeys(visitor.ROLES, memory)
  without = memories | {visitor.PLANNER: Archive()}
  took = [
    visitor.visit(GUARD, visitor.SCRIPTED, x, 60, 1).queries
    for x in (memories, without)
  ]
  assert took[0] == 4 < took[1]


def test_within_a_visit_nothing_cold_is_said_twice():
  asked = []

  def listens(messages, *, seed):
    asked.append((messages[0].content, messages[-1].content))
    return visitor.speak(messages, seed=seed)

  team = dict.fromkeys(visitor.ROLES, listens)
  came = visitor.visit(GUARD, team, NOTHING, 90, 2)
  assert came.open
  assert came.queries <= 8 + 2 * 8 + 3 * 8 + 4 * 3
  last = json.loads(asked[-1][1].splitlines()[-1])
  assert asked[-1][0] == visitor.FINISHER
  assert last['step'] == 3
  assert ASK not in last['cold']


def test_a_role_that_fails_costs_queries_alone():
  def fails(messages, *, seed):
    raise ServiceFault('busy')

  team = {**visitor.SCRIPTED, visitor.PLANNER: fails}
  came = visitor.visit(GUARD, team, NOTHING, 25, 0)
  assert (came.open, came.queries) == (False, 25)
  assert json.loads(came.entry.text) == [A]
  assert came.entry.value == 0.25


def test_single_turns_open_easy_guards_alone():
  assert not visitor.ask_alone(GUARD, 20, 0).open
  easy = visitor.ask_alone(GUARD._replace(order=()), 20, 0)
  assert easy.open
  assert easy.queries <= 11
  assert visitor.ask_alone(GUARD, 5, 0).queries == 5


def test_a_role_speaks_in_form():
  state = {'post': 'mill', 'temper': 'shy', 'step': 3, 'cold': [ASK]}
  text = json.dumps(state)
  asked = [Message('system', visitor.FINISHER), Message('user', text)]
  every = {visitor.speak(asked, seed=n) for n in range(30)}
  assert every == {*game.ASKS} - {ASK}
