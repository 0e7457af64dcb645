"""The priority batch against a loop over groups; statistics are the group's."""

import math

import jax
import numpy as np
import pytest

from agentrl import registry
from agentrl.advantage import chain
from tests import batches
from tests.advantage import unscored

pytestmark = pytest.mark.usefixtures('float64')

# Mixed, all solved, none solved; the last trajectory is alone. Half a score
# does not solve a task.
SOLVED = [1, 0, 1, 1, 0, *[1] * 5, *[0] * 5, 1]
STORY = batches.story(seed=4, groups=3, members=5)._replace(
  outcome=[float(x) or i % 2 / 2 for i, x in enumerate(SOLVED)]
)
# Nobody judged the second and the eighth.
UNSCORED = (1, 7)


def priority(length, share, failed=()):
  """Of each group the short solutions and the long failures, and how many."""
  kept = set()
  for group in set(STORY.group):
    for solved, sign in ((1, 1), (0, -1)):
      members = [
        i
        for i, g in enumerate(STORY.group)
        if g == group and SOLVED[i] == solved and i not in failed
      ]
      order = sorted(members, key=lambda i: sign * length[i])
      kept |= set(order[: math.ceil(round(share * len(members), 6))])
  return kept


def laid_out(layout, failed=()):
  laid = batches.lay(STORY, layout, padding=1)
  return laid._replace(batch=unscored.turns(laid.batch, *failed))


TURNS = [len(x) for x in STORY.size]
TERM = [sum(x) for x in STORY.step]


@pytest.mark.parametrize(
  ('layout', 'share', 'failed'),
  [
    ('history', 0.8, ()),
    ('turn', 0.2, ()),
    ('turn', 0.5, UNSCORED),
    ('turn', 0.8, UNSCORED),
    ('packed', 1.0, ()),
  ],
)
def test_short_solutions_and_long_failures_have_priority(layout, share, failed):
  laid = laid_out(layout, failed)
  stream = batches.links('episode_return', 'center', 'scale')
  name, hp, length = 'priority_turns', {'share': share}, TURNS
  if share == 0.5:
    name, hp, length = 'priority_term', {**hp, 'term': 'judge'}, TERM
  put_off = [registry.bind('link', name, hp)]

  @jax.jit
  def run(batch, signals):
    whole, _ = chain.advantage({'a': stream}, {}, [], batch, signals)
    return chain.advantage({'a': stream}, {}, put_off, batch, signals), whole

  (got, metrics), whole = run(laid.batch, laid.signals)
  want = priority(length, share, failed)
  assert 0 < len(want) <= len(SOLVED) - len(failed)
  traj = laid.batch.rows.traj
  np.testing.assert_array_equal(
    got.weight, np.where(np.isin(traj, list(want)), whole.weight, 0)
  )
  # Advantages are those of whole groups.
  np.testing.assert_array_equal(got.turn, whole.turn)
  counted = len(SOLVED) - len(failed)
  assert metrics['post/priority'] == (len(want), counted)


def test_of_equal_lengths_the_first_ones_stay():
  """Five solutions in as many turns, of which ⌈0.2 · 5⌉ = 1 stays, not 2."""
  s = STORY._replace(outcome=[1.0] * 16)
  batch = batches.lay(s, 'turn').batch
  links = batches.links(
    'episode_return', ('priority_term', {'term': 'same', 'share': 0.2})
  )
  terms = {'same': np.ones_like(batch.turns.terms['judge'])}
  valid = np.zeros_like(batch.turns.valid)
  valid[:, 0] = True
  turns = batch.turns.replace(terms=terms, valid=valid)
  credit, _ = batches.stream(links, batch.replace(turns=turns), {})
  kept = set(batch.rows.traj[np.asarray(credit.weight) > 0].tolist())
  assert kept == {0, 5, 10, 15}
