"""Selections against plain references."""

import numpy as np
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


def path(step, task, answer, malformed, process):
  """A path, known by its step, and what it is scored."""
  return story(step, turns=1, step=step, task=task), selections.PathScore(
    answer, malformed, process
  )


def paired(paths, **how):
  """(winner, loser) of the pairs, by the steps of the paths."""
  score = {x.step: s for x, s in paths}
  how = dict(most=9, right=0.5, least=0.2, margin=0.05) | how
  xs = [x for x, _ in paths]
  out = selections.process_pairs(xs, lambda x: score[x.step], **how)
  assert all(x.task == y.task for x, y in zip(out[::2], out[1::2], strict=True))
  return [(x.step, y.step) for x, y in zip(out[::2], out[1::2], strict=True)]


GROUP = [
  path(0, 7, 1.0, 0, 0.25),  # right, in detours
  path(1, 7, 1.0, 0, 0.5),  # right
  path(2, 7, 1.0, 1, 0.4),  # right, but not always understood
  path(3, 7, 0.0, 0, 0.5),  # wrong, whatever it has read
  path(4, 7, 0.5, 0, 0.1),  # not above the threshold
  path(5, 7, 0.8, 0, 0.47),  # no worse by the margin
  path(6, 8, 0.0, 0, 0.0),  # of another task, which nobody solves
]


def test_the_best_path_is_preferred_to_worse_ones_of_each_kind():
  assert paired(GROUP) == [(1, 0), (1, 4), (1, 2), (1, 3)]
  assert paired(GROUP, most=2) == [(1, 0), (1, 4)]
  assert paired(GROUP, margin=0.3) == [(1, 4), (1, 2), (1, 3)]
  assert (1, 5) in paired(GROUP, margin=0.02)
  assert paired(GROUP[::-1]) == paired(GROUP)


def test_thresholds_are_strict_for_float32_too():
  third = float(np.float32(1 / 3))
  two = [path(0, 7, 1.0, 0, third), path(1, 7, 0.0, 0, 0.0)]
  assert paired(two, least=0.33) == [(0, 1)]
  assert not paired(two, least=1 / 3)
  assert not paired(two, right=1.0)
  fifth = [path(0, 7, 1.0, 0, 0.7), path(1, 7, 1.0, 0, np.float32(0.5))]
  assert not paired(fifth, margin=0.2)
  assert paired(fifth, margin=0.19) == [(0, 1)]


@pytest.mark.parametrize(
  'without',
  [
    GROUP[6:],  # nobody is right
    GROUP[1:2],  # nobody else
    [GROUP[1], GROUP[5]],  # as good
    [GROUP[2], GROUP[3]],  # right but not understood
    [path(0, 7, 1.0, 0, 0.2), GROUP[3]],  # right, and covers nothing
    [],
  ],
)
def test_a_task_without_a_pair_makes_none(without):
  assert paired(without) == []


def test_the_best_and_the_worst_of_each_group_by_a_score():
  where = [(1, 0), (1, 0), (1, 0), (2, 0), (2, 0), (2, 1), (2, 1)]
  value = [0.5, 0.9, 0.1, 0.2, 0.6, 0.5, 0.5]
  xs = [
    story(i, turns=1, step=step, group=group, task=7)._replace(outcome=float(i))
    for i, (step, group) in enumerate(where)
  ]
  score = lambda x: value[int(x.outcome)]  # noqa: E731
  ids = lambda out: [int(x.outcome) for x in out]  # noqa: E731
  assert ids(selections.judged_pairs(xs, score)) == [1, 2, 4, 3]
  assert ids(selections.judged_pairs(xs, score, margin=0.4)) == [1, 2]
  assert ids(selections.judged_pairs(xs, score, margin=0.8)) == []
