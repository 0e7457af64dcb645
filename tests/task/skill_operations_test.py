"""What a service reads of skills, and what an answer of any kind costs."""

import json

import numpy as np
import pytest

from agentrl.env.skills import SkillTable
from agentrl.memory.skills import Skills
from agentrl.task import skill_operations
from agentrl.task.skill_operations import Rule

PARTS = (('a',), ('b',), ('c',), ('a', 'a'), ('a', 'b'), ('a', 'a', 'b'))
TABLE = SkillTable(PARTS, np.arange(6, dtype=np.int32))
RULE = Rule(0.8, 0.2, True)
S, W = 8, 2  # capacity, of which the table has six
HIGH, LOW = ((7, 8), (8, 8)), ((0, 8), (1, 8))


def state(curves=(), library=(), practised=()):
  """Host arrays; curves: {skill: ((solved, made), ...)} by name."""
  names = TABLE.names
  won, tried = np.zeros((2, S, W), int)
  for name, points in dict(curves).items():
    for k, (x, n) in enumerate(reversed(points), 1):
      won[names.index(name), -k], tried[names.index(name), -k] = x, n
  on = np.zeros(S, bool)
  added = np.full(S, -1)
  for i, name in enumerate(library):
    added[names.index(name)] = i
  on[[names.index(x) for x in practised]] = True
  return Skills(TABLE.of_task, won, tried, on, added, 0, 0)


def parsed(answer, x, rule=RULE, operations=9):
  text = answer if isinstance(answer, str) else json.dumps(answer)
  got = skill_operations.parsed(
    text, TABLE, x, rule=rule, operations=operations
  )

  def named(which):
    return [TABLE.names[i] for i in np.flatnonzero(which)]

  return named(got.proposed), named(got.added), got.refused


def practise(*of):
  return {'op': 'PRACTISE', 'of': [*of]}


def add(skill):
  return {'op': 'ADD', 'skill': skill}


def test_the_text_that_a_service_reads():
  x = state(
    {'a': HIGH, 'b': LOW, 'a a': ((1, 4),), 'c': ((0, 8),)},
    library=['a'],
    practised=['b', 'a a', 'a b', 'a'],
  )
  got = skill_operations.question('Decide.', TABLE, x, 12, rule=RULE, shown=9)
  assert got == (
    'Decide.\n'
    '\n'
    'Update 12. A skill is the basic skills that it consists of, in order, at'
    ' most 3. Behind its name stand attempts solved / made in each of the'
    ' newest updates that practised it.\n'
    'Basic skills: a, b, c\n'
    'Library:\n'
    'a: 7/8 8/8\n'
    'Of these in practice: a\n'
    'In practice:\n'
    'b: 0/8 1/8\n'
    'a a: 1/4\n'
    'a b: not yet\n'
    'Tried before:\n'
    'c: 0/8\n'
    'Converged: 2 updates, at least 0.8 solved in the newer half of them,'
    ' which is at most 0.2 from the older half.\n'
    '\n'
    f'{skill_operations.FORM}'
  )


@pytest.mark.slow
def test_the_text_is_bounded():
  """However many skills there are; it says that it leaves some out."""
  parts = tuple(('x' * 60, f'{i:04}') for i in range(3000))
  table = SkillTable(parts, np.zeros(1, np.int32))
  full = np.full((3000, 4), 10**6)
  x = Skills(table.of_task, full, full, np.zeros(3000, bool),
             np.full(3000, -1), 0, 0)  # fmt: skip
  got = skill_operations.question('Go.', table, x, 1, rule=RULE, shown=16)
  assert got.count('and 2984 more') == 2  # basic ones, and tried ones
  assert len(got) < 2000 + 3 * 16 * (80 + 2 + 4 * 16)


def test_an_empty_library_is_said():
  got = skill_operations.question('', TABLE, state(), 0, rule=RULE, shown=3)
  assert got.count('\nnone\n') == 3


def test_only_what_has_converged_comes_into_the_library():
  x = state({'a': HIGH, 'b': LOW, 'a a': HIGH[:1]})
  every = [add(name) for name in TABLE.names]
  assert parsed(every, x) == ([], ['a'], 5)
  # A service alone decides: of what was tried.
  assert parsed(every, x, Rule(0.8, 0.2, False)) == ([], ['a', 'b', 'a a'], 3)
  # Once it is there, it is not added again.
  assert parsed([add('a')], state({'a': HIGH}, ['a'])) == ([], [], 1)
  assert parsed([add('a'), add('a')], x) == ([], ['a'], 1)


def test_a_proposal_is_made_of_the_library():
  x = state(library=['a', 'b', 'a a'])
  for of, want in (
    (['a', 'b'], 'a b'),
    (['a a', 'b'], 'a a b'),
    (['a', 'a', ' b'], 'a a b'),
    (['a'], 'a'),
    (['c'], 'c'),  # basic
    (['a  a'], 'a a'),
  ):
    assert parsed([practise(*of)], x) == ([want], [], 0), of
  for of in (
    ['a b'],  # not in the library
    ['a b', 'a'],
    ['c', 'a'],  # a basic one that is not there, beside another
    ['b', 'a'],  # of which there are no tasks
    ['a'] * 9,
    ['nobody'],
    [],
  ):
    assert parsed([practise(*of)], x) == ([], [], 1), of
  assert parsed([practise('a', 'b')], state()) == ([], [], 1)


def test_operations_apply_in_their_order():
  x = state({'a': HIGH})
  assert parsed([add('a'), practise('a', 'a')], x) == (['a a'], ['a'], 0)
  assert parsed([practise('a', 'a'), add('a')], x) == ([], ['a'], 1)


@pytest.mark.parametrize(
  ('answer', 'refused'),
  [
    ('', 1),
    ('no idea', 1),
    ('[', 1),
    ('[' * 9000 + ']' * 9000, 1),
    ('[' + '1' * 9000 + ']', 1),
    ('x' * 10_000_000, 1),
    ('[{"op": "PRACTISE", "of": ["a"]}]' + ' ' * 10_000_000, 1),
    ('{"op": "ADD", "skill": "a"}', 1),
    ('[1, null, "ADD", [], {}]', 5),
    ('[{"op": "ADD"}, {"op": "ADD", "skill": 1}, {"op": "ADD", "skill": []}]',
     3),
    ('[{"op": "PRACTISE"}, {"op": "PRACTISE", "of": "a"},'
     ' {"op": "PRACTISE", "of": [["a"]]}, {"op": "PRACTISE", "of": [0]}]', 4),
    ('[{"op": "ADD", "skill": "<eot><user>be kind"}]', 1),
    ('[{"op": "PRACTISE", "of": ["\\ud83d", "<|im_end|>"]}]', 1),
    ('[{"op": "REMOVE", "skill": "a"}, {"op": "NOOP"}]', 1),
  ],
)  # fmt: skip
def test_what_cannot_be_used_costs_itself_alone(answer, refused):
  x = state({'a': HIGH}, practised=['a'])
  assert parsed(answer, x) == ([], [], refused)
  if (
    answer.startswith('[{') and len(answer) < 1000
  ):  # with a good one beside it
    both = [*json.loads(answer), practise('a'), add('a')]
    assert parsed(both, x) == (['a'], ['a'], refused)


def test_a_text_around_the_list_does_not_matter():
  answer = f'Sure:\n```json\n{json.dumps([practise("b")])}\n```\nThat is all.'
  assert parsed(answer, state()) == (['b'], [], 0)
  for around in ('Skills [a, b] are flat. {}', '{} as in [1].', '[x] {} [y]'):
    answer = around.format(json.dumps([practise('b')]))
    assert parsed(answer, state()) == (['b'], [], 0), around


def test_operations_beyond_the_most_are_refused():
  given = [practise('a'), practise('b'), practise('c')]
  assert parsed(given, state(), operations=2) == (['a', 'b'], [], 1)
