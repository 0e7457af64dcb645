"""A rule that reads what a model would, and builds a curriculum by it."""

import json

import numpy as np
import pytest

from agentrl.env.skills import SkillTable
from agentrl.env.worlds import skill_proposer
from agentrl.task import skill_operations
from agentrl.text.message import Message
from tests.task import skill_operations_test as operations

HIGH, LOW = operations.HIGH, operations.LOW
NEVER = ((0, 8), (0, 8))
RISING = ((1, 8), (8, 8))


def asked(x, seed=0, service=skill_proposer.propose):
  """What is put into the library, what is proposed."""
  text = skill_operations.question(
    'Decide.', operations.TABLE, x, 4, rule=operations.RULE, shown=9
  )
  answer = service([Message('user', text)], seed=seed)
  proposed, added, refused = operations.parsed(answer, x)
  return added, proposed, refused, json.loads(answer)


def test_basic_skills_come_first():
  added, proposed, refused, _ = asked(operations.state())
  assert (added, proposed, refused) == ([], ['a', 'b', 'c'], 0)


def test_what_has_converged_is_added_and_composed():
  x = operations.state(
    {'a': HIGH, 'b': RISING, 'c': LOW}, practised=['a', 'b', 'c']
  )
  added, proposed, refused, _ = asked(x)
  assert added == ['a']
  assert proposed == ['b', 'c', 'a a']
  assert not refused
  x = operations.state({'a a': HIGH}, ['a', 'b'], ['a a', 'a b'])
  added, proposed, _, _ = asked(x)
  assert added == ['a a']
  assert {'a b', 'c'} <= {*proposed}


def test_what_never_succeeds_makes_room():
  """For skills of its length that have not failed."""
  curves = {'a a': NEVER, 'c': NEVER}
  x = operations.state(curves, ['a', 'b'], ['a a', 'c'])
  of = [y['of'] for y in asked(x)[3]]
  assert of[0] == ['c']  # the only basic one that is left
  assert ['a', 'b'] in of
  assert ['a', 'a'] not in of


def test_at_the_end_the_longest_are_practised():
  table = SkillTable((('a',), ('a', 'a')), np.zeros(1, np.int32))
  x = operations.state(library=['a', 'b'])
  rule = operations.RULE
  text = skill_operations.question('', table, x, 4, rule=rule, shown=9)
  answer = json.loads(skill_proposer.propose([Message('user', text)], seed=0))
  assert answer == [{'op': 'PRACTISE', 'of': ['a a']}]


def test_the_control_monitors_alike_and_proposes_anything_that_may_be():
  x = operations.state({'a': HIGH, 'b': LOW}, ['c'], ['a', 'b'])
  service = skill_proposer.propose_at_random
  seen, refused = set(), 0
  for seed in range(300):
    added, proposed, wrong, answer = asked(x, seed, service)
    assert added == ['a']
    assert sum(y['op'] == 'PRACTISE' for y in answer) == skill_proposer.WIDTH
    seen |= {*proposed}
    refused += wrong
  assert seen == {'a', 'b', 'c', 'a a'}  # what there are tasks of
  assert refused  # of the others
  assert asked(x, 7, service) == asked(x, 7, service)


@pytest.mark.parametrize('propose', [
  skill_proposer.propose, skill_proposer.propose_at_random
])  # fmt: skip
def test_a_cut_list_is_read_as_far_as_it_goes(propose):
  text = skill_operations.question(
    'Go.', operations.TABLE, operations.state({'a': HIGH, 'b': LOW, 'c': LOW}),
    4, rule=operations.RULE, shown=2,
  )  # fmt: skip
  answer = json.loads(propose([Message('user', text)], seed=0))
  assert {'op': 'ADD', 'skill': 'a'} in answer


def test_curves_are_judged_by_the_rule_of_the_memory():
  rng = np.random.default_rng(0)
  for _ in range(200):
    tried = rng.integers(1, 9, operations.W)
    won = rng.binomial(tried, rng.random() ** 0.2)
    points = tuple(zip(won.tolist(), tried.tolist(), strict=True))
    x = operations.state({'a': points}, practised=['a'])
    may = skill_operations.skills.converged(
      x.won, x.tried, operations.RULE.level, operations.RULE.tolerance
    )[0]
    added, _, refused, _ = asked(x)
    assert (added == ['a']) == bool(may)
    assert not refused
