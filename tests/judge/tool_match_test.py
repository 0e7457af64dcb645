"""Tool calls: the cases of the reward by hand, and against plain loops."""

import itertools
import json
import random

import pytest

import agentrl.judge  # noqa: F401  registers its pieces
from agentrl.judge import tool_match
from agentrl.judge.item import JudgeFault
from agentrl.text.tool_calls import format_of
from agentrl.text.tool_calls.base import Call
from tests.judge import made_up_items as items

GRAINS = tuple(tool_match.GRAINS)


def written(calls):
  lines = '\n'.join(
    json.dumps({'name': n, 'parameters': args}) for n, args in calls
  )
  return f'<think>so</think>\n<tool_call>\n{lines}\n</tool_call>'


def reward(gold, calls, **hp):
  gold = [{'name': n, 'arguments': args} for n, args in gold]
  what = items.spoken(written(calls), calls=gold)
  return items.score('tool_match', what, **hp)


F, G = ('f', {'x': 1, 'y': 2}), ('g', {})


@pytest.mark.parametrize(
  ('gold', 'calls', 'want'),
  [
    ([F], [F], 3),
    ([F, G], [F, G], 3),
    # names 1, of max 1 + 3 + 1 = 5: all is right but the order.
    ([F, G], [G, F], 3),
    ([F], [G], -3),
    # names 1, parameters 1, one of two values: 3 of 1 + 3.
    ([F], [('f', {'x': 1, 'y': 3})], 6 * 3 / 4 - 3),
    # parameters 1/2, one value: 2.5 of 4.
    ([F], [('f', {'x': 1})], 6 * 2.5 / 4 - 3),
    # types matter.
    ([('f', {'x': 1})], [('f', {'x': '1'})], 6 * 2 / 3 - 3),
    # one call too many: names 1/2.
    ([F], [F, G], 6 * 3.5 / 4 - 3),
    ([F], [F, F], 6 * 3.5 / 4 - 3),
    # one too few: names 1/2, of 1 + 3 + 3.
    ([F, F], [F], 6 * 3.5 / 7 - 3),
    # no call with parameters: names 1 and parameters 1 of 2.
    ([G], [('g', {'x': 1})], 6 * 1 / 2 - 3),
    ([G], [('g', {})], 3),
  ],
)
def test_by_hand(gold, calls, want):
  assert reward(gold, calls) == pytest.approx(want, rel=1e-15)


@pytest.mark.parametrize(
  ('grain', 'want'),
  [
    ('fine', 6 * (1 + 1 + 1 + 1 + 1) / 6 - 3),
    # The lists of tools differ in order, those of parameters in `f` agree.
    ('refined', 6 * (0 + 2 + 1 + 1) / 6 - 3),
    # One call of two is the gold one.
    ('intermediate', 6 * (1 + 0 + 1) / 3 - 3),
    ('coarse', -3),
  ],
)
def test_grains_by_hand(grain, want):
  gold = [F, ('g', {'z': 0})]
  calls = [('g', {'z': 0}), ('f', {'x': 1, 'y': 3})]
  assert reward(gold, calls, grain=grain) == pytest.approx(want, rel=1e-15)


def test_the_order_of_parameters_matters_to_refined_alone():
  flip = ('f', {'y': 3, 'x': 1})
  assert reward([F], [flip]) == pytest.approx(6 * 3 / 4 - 3)
  assert reward([F], [flip], grain='refined') == pytest.approx(6 * 2 / 4 - 3)


@pytest.mark.parametrize('grain', GRAINS)
def test_equal_calls_are_the_best_and_none_are_the_worst(grain):
  r = random.Random(1)
  for _ in range(50):
    gold, calls = drawn(r), drawn(r)
    assert reward(gold, gold, grain=grain) == 3
    assert -3 <= reward(gold, calls, grain=grain) <= 3
    assert reward(gold, [('other', {})], grain=grain) == -3
    assert reward(gold, calls, grain=grain, most=1.0) == pytest.approx(
      reward(gold, calls, grain=grain) / 3
    )


def drawn(r):
  return [
    (
      r.choice('fg'),
      {x: r.choice([0, 1, '1', 1.5]) for x in 'abc' if r.random() < 0.5},
    )
    for _ in range(r.randrange(1, 4))
  ]


def multiset(a, b):
  """|a ∩ b| / |a ∪ b|, by taking away one by one."""
  left, common = list(b), 0
  for x in a:
    if x in left:
      left.remove(x)
      common += 1
  whole = len(a) + len(left)
  return common / whole if whole else 1.0


def loops(gold, calls):
  """R_correct as in the paper's code."""
  if gold == calls:
    return 3.0
  score, most = multiset([n for n, _ in gold], [n for n, _ in calls]), 1.0
  used = set()
  for name, args in gold:
    most += 1 + len(args)
    best, at = 0.0, None
    for i, (other, theirs) in enumerate(calls):
      if i in used or other != name:
        continue
      points = multiset(list(args), list(theirs))
      points += sum(k in theirs and theirs[k] == v for k, v in args.items())
      if points > best:
        best, at = points, i
    if at is not None:
      used.add(at)
      score += best
  return 6 * score / most - 3


def test_fine_is_the_plain_loops():
  r, values = random.Random(0), set()
  for _ in range(500):
    gold, calls = drawn(r), drawn(r)
    got = reward(gold, calls)
    assert got == pytest.approx(loops(gold, calls), rel=1e-12, abs=1e-12)
    values.add(round(got, 6))
  assert len(values) > 50


@pytest.mark.parametrize(
  'text',
  [
    '',
    '<think>no call</think>',
    '<tool_call>\n</tool_call>',
    '<tool_call>\n{"name": "f"\n</tool_call>',
    '<tool_call>\n{"name": "f"}\n</tool_call>',
    '<tool_call>\n{"name": 1, "parameters": {}}\n</tool_call>',
    '<tool_call>\n["f"]\n</tool_call>',
    '<tool_call>\n{"name": "g", "parameters": {}}',
  ],
)
def test_what_cannot_be_read_costs_all(text):
  gold = [{'name': 'g', 'parameters': {}}]
  assert items.score('tool_match', items.spoken(text, calls=gold)) == -3
  # Where nothing was to be called it does not matter.
  assert items.score('tool_match', items.spoken(text, calls=[])) == 0


@pytest.mark.parametrize('format', tool_match.FORMATS[1:])
def test_calls_in_the_formats_of_models(format):
  text = format_of(format).write([Call('f', {'x': 1}), Call('g', {})])
  gold = [{'name': 'f', 'arguments': {'x': 1}}, {'name': 'g', 'arguments': {}}]
  what = items.spoken(text, calls=gold)
  assert items.score('tool_match', what, format=format) == 3
  what = items.spoken(text.replace('"x": 1', '"x"'), calls=gold)
  if format != 'llama_pythonic':
    assert items.score('tool_match', what, format=format) == -3


def test_calls_of_a_turn_and_of_all_turns():
  def line(name):
    return {'name': name, 'parameters': {}}

  task = {'calls': [[line('f')], [line('g'), line('g')], []]}
  what = items.item(
    '', written([G]), '', written([G, G]), '', 'done', task=task
  )
  got = [items.score('tool_match', what._replace(turn=k)) for k in range(3)]
  assert got == [-3, 3, 0]
  # Three calls of g for one of f and two of g: names 2/4, two of three calls.
  want = 6 * (0.5 + 2) / 4 - 3
  assert items.score('tool_match', what) == pytest.approx(want)


@pytest.mark.parametrize(
  'task', [{}, {'calls': 3}, {'calls': [1]}, {'calls': [{'name': 'f'}]}]
)
def test_gold_calls_that_cannot_be_read_are_a_fault(task):
  with pytest.raises(JudgeFault):
    items.score('tool_match', items.spoken(written([F]), **task))


def test_jaccard_is_that_of_multisets():
  for a, b in itertools.product(['', 'f', 'ff', 'fg', 'ffg', 'h'], repeat=2):
    assert tool_match.jaccard(a, b) == multiset(a, b)
