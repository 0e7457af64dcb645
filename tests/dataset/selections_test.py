"""Selections against plain references."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.dataset import selections
from tests import errors
from tests.dataset.stored_cases import stories, story

often = settings(deadline=None, max_examples=60)


@often
@given(st.lists(stories(), max_size=8))
def test_the_shortest_solved_of_each_task(xs):
  got = selections.shortest_solved_per_task(xs)
  want = []
  for i, x in enumerate(xs):
    alike = [
      (y.tokens, j)
      for j, y in enumerate(xs)
      if y.task == x.task and y.outcome > 0.5
    ]
    if alike and min(alike)[1] == i:
      want.append(x)
  assert [id(x) for x in got] == [id(x) for x in want]


@often
@given(
  st.lists(stories(), max_size=8),
  st.sampled_from(sorted(selections.KEYS)),
  st.integers(0, 9),
  st.booleans(),
)
def test_a_selection_is_the_best_in_order(xs, key, n, largest):
  got = selections.select(xs, key=key, n=n, largest=largest)
  scores = selections.KEYS[key](xs)
  left, want = [*range(len(xs))], []
  while left and len(want) < n:
    best = (max if largest else min)(left, key=lambda i: scores[i])
    want.append(xs[best])
    left.remove(best)
  assert [id(x) for x in got] == [id(x) for x in want]


def test_keys_measure_what_they_say():
  x = story(4, turns=3)
  assert selections.length([x]) == [sum(len(t.message) for t in x.turns)]
  assert selections.reward([x]) == [sum(t.reward for t in x.turns)]
  nats = sum(t.entropy for t in x.turns)
  assert selections.entropy([x]) == [pytest.approx(nats / x.tokens)]
  assert selections.entropy([x._replace(turns=())]) == [0]
  states = len({t.state for t in x.turns})
  assert selections.novelty([x, x]) == [states, 0]


def test_a_function_is_a_key_and_mistakes_are_refused():
  xs = [story(s, turns=1, step=s) for s in range(5)]
  got = selections.select(xs, key=lambda x: x.step % 4, n=2)
  assert [x.step for x in got] == [3, 2]
  with errors.raises(ValueError, 'size'):
    selections.select(xs, key='size', n=1)
  with errors.raises(ValueError, 'n -1'):
    selections.select(xs, key='length', n=-1)
