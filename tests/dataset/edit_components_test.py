"""Edits by name: lists of ragged trajectories against plain loops."""

import numpy as np
import pytest

from agentrl import registry
from agentrl.dataset import (  # noqa: F401  they register them
  edit_components,
  task_edits,
)
from agentrl.env import goals
from agentrl.env.worlds.household import Household
from agentrl.text import tokenizer
from agentrl.types import Span
from tests.dataset import stored_cases

STORIES = [stored_cases.story(seed) for seed in range(40)]


def edited(name, xs=STORIES, **values):
  needs, more = registry.get('edit', name).needs, {}
  if 'tokenizer' in needs:
    more['words'] = tokenizer.Embedded()
  if goals.STATED in needs:
    more['family'] = Household()
  return registry.bind('edit', name, values)(xs, **more)


def has(turn, term, above=0.0):
  return term in turn.terms and turn.terms[term] > above


def test_every_edit_is_a_function_of_lists():
  """Empty lists and trajectories without turns stay what they are."""
  empty = stored_cases.story(0, turns=0)
  for name in registry.names('edit'):
    assert edited(name, []) == []
    assert len(edited(name, [empty])) <= 1


def test_what_is_kept():
  solved = [x for x in STORIES if x.outcome > 0.5]
  assert 0 < len(solved) < len(STORIES)
  assert edited('keep_solved') == solved
  for above in (-1.0, 0.5, 1.0):
    want = [x for x in STORIES if x.outcome > above]
    assert edited('keep_solved', above=above) == want
  assert edited('keep_unsolved') == [x for x in STORIES if x.outcome <= 0.5]
  for above in (0.0, 0.7):
    options = {'term': 'progress', 'above': above}
    kept = edited('keep_with_term', **options)
    want = [any(has(t, 'progress', above) for t in x.turns) for x in STORIES]
    assert kept == [x for x, keep in zip(STORIES, want, strict=True) if keep]
    left = edited('keep_without_term', **options)
    assert [*map(id, left)] == [
      id(x) for x, keep in zip(STORIES, want, strict=True) if not keep
    ]
    assert kept
    assert left


@pytest.mark.parametrize('n', [1, 7, 39, 40, 50])
def test_a_subset_keeps_the_order_and_depends_on_the_seed(n):
  places = {id(x): i for i, x in enumerate(STORIES)}
  one, again, other = (
    [places[id(x)] for x in edited('subset', n=n, seed=seed)]
    for seed in (0, 0, 1)
  )
  assert one == again == sorted(set(one))
  assert len(one) == min(n, 40)
  assert (one == other) == (n >= 40)


def test_turns_that_have_a_term():
  term = 'progress'
  cut = edited('cut_at_first', term=term)
  dropped = edited('drop_turns', terms=('invalid', term))
  removed = edited('remove_turns', term=term)
  assert sum(bool(x.turns) for x in STORIES) > len(removed) > 0
  where = iter(removed)
  for x, short, masked in zip(STORIES, cut, dropped, strict=True):
    bad = [has(t, term) for t in x.turns]
    either = [has(t, term) or has(t, 'invalid') for t in x.turns]
    end = bad.index(True) + 1 if any(bad) else len(bad)
    assert len(short.turns) == end
    for t, new, out in zip(x.turns, masked.turns, either, strict=True):
      np.testing.assert_array_equal(
        new.weight, 0 * t.weight if out else t.weight
      )
    if any(not out for out in bad):
      assert len(next(where).turns) == bad.count(False)


def test_spans_are_masked():
  for x, new in zip(
    STORIES, edited('mask_spans', spans=('thought', 'answer')), strict=True
  ):
    for t, out in zip(x.turns, new.turns, strict=True):
      inside = np.isin(t.span, [Span.THOUGHT, Span.ANSWER])
      np.testing.assert_array_equal(out.weight, np.where(inside, 0, t.weight))


def test_weights_are_exponentials_of_rewards():
  most = max(t.reward for x in STORIES for t in x.turns)
  for x, new in zip(
    STORIES, edited('weigh_by_reward', temperature=0.5), strict=True
  ):
    for t, out in zip(x.turns, new.turns, strict=True):
      want = np.asarray(t.weight, float) * np.exp((t.reward - most) / 0.5)
      np.testing.assert_allclose(out.weight, want, rtol=1e-6)
      assert np.all(out.weight <= t.weight)


def test_the_shortest_and_the_best():
  best = edited('select', key='reward', n=5)
  rewards = sorted((x.reward for x in STORIES), reverse=True)
  assert [x.reward for x in best] == rewards[:5]
  short = edited('shortest_solved_per_task')
  for x in short:
    same = [y.tokens for y in STORIES if y.task == x.task and y.outcome > 0.5]
    assert x.tokens == min(same)
  assert len({x.task for x in short}) == len(short) > 1
