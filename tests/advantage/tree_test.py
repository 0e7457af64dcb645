"""Credit on trees of turns, against plain loops over paths of nodes."""

import functools

import jax
import numpy as np
import pytest

from agentrl.advantage import chain
from tests import batches
from tests.advantage import little_story, unscored
from tests.batches import links

pytestmark = pytest.mark.usefixtures('float64')

# Nodes of each trajectory. Group 0 branches twice, group 1 once, the group 2
# is alone, in group 3 all outcomes are equal, group 4 does not branch.
PATHS = [
  [0, 1, 2],
  [0, 1, 3, 4],
  [0, 5],
  [6, 7, 8],
  [10],
  [11, 12],
  [11, 13],
  [14, 15, 16, 17],
  [20, 21],
  [30, 31],
  [30, 32, 33],
  [30, 32, 34],
  [40, 41],
  [42],
  [43, 44, 45, 46],
]
GROUP = [0] * 4 + [1] * 4 + [2] + [3] * 3 + [4] * 3
OUTCOME = [1.0, 0.3, -2.0, 0.8, 0.1, 0.7, 1.9, 0.0, 5.0, *[0.1] * 3, 1, 0, 0.5]
NODE = {'unit': 'node'}
TREE = ('episode_outcome', 'tree_advantage')
CASES = {
  'tree': TREE,
  'shrunk': ('episode_outcome', ('tree_advantage', {'shrink': 1.5})),
  'normal': (*TREE, ('center', NODE), ('scale', NODE)),
  'hard': ('episode_outcome', 'center', 'average'),
  'soft': ('episode_outcome', 'center', 'average', 'leaf_weight'),
  'leaves': ('episode_outcome', 'center'),
  'splits': ('episode_outcome', 'split_zscores'),
}
VARIANTS = ('turn', batches.EXPLICIT)


def _owner(i, k):
  return next(j for j, p in enumerate(PATHS) if PATHS[i][k] in p[k : k + 1])


# Tokens of a shared turn are as many everywhere.
STORY = little_story.make(
  [[0] * len(path) for path in PATHS],
  group=GROUP,
  outcome=OUTCOME,
  size=[[1 + n % 3 for n in path] for path in PATHS],
)


def _lay(layout):
  """The story's batch, its nodes given and copies of weight 0."""
  laid = batches.lay(STORY, layout, padding=1)
  node = laid.batch.turns.node + 1000
  weight = laid.batch.rows.weight.copy()
  for i, path in enumerate(PATHS):
    node[i, : len(path)] = path
    for k in range(len(path)):
      here = (laid.batch.rows.traj == i) & (laid.batch.rows.turn == k)
      weight[here & (_owner(i, k) != i)] = 0
  turns = laid.batch.turns.replace(node=node)
  rows = laid.batch.rows.replace(weight=weight)
  return laid._replace(batch=laid.batch.replace(turns=turns, rows=rows))


def _all(batch):
  out = {}
  for name, names in CASES.items():
    credit, _ = chain.stream(links(*names), batch, {})
    out[name] = credit.turn, credit.weight
  return out


@functools.cache
def found(variant):
  if variant == 'turn':
    batch = _lay('turn').batch
    return batch, jax.jit(_all)(batch)
  batch = _lay('packed').batch
  return batch, batches.on_a_mesh(_all, (batch,), batch.rows.tokens.shape)


def _leaves(node):
  return [i for i, path in enumerate(PATHS) if node in path]


def _value(i, k, c=0.0):
  """V of turn k of trajectory i; of its group's root at k = -1."""
  if k < 0:
    return np.mean([OUTCOME[j] for j, g in enumerate(GROUP) if g == GROUP[i]])
  pool = [OUTCOME[j] for j in _leaves(PATHS[i][k])]
  if c == 0:
    return np.mean(pool)
  return (sum(pool) + c * _value(i, k - 1, c)) / (len(pool) + c)


def _advantage(i, k, c=0.0):
  v = _value(i, k, c)
  return 2 * v - _value(i, k - 1, c) - _value(i, -1)


def _normal(i, k):
  """A z-scored over the nodes of the tree, each once."""
  pool = {
    PATHS[j][m]: _advantage(j, m)
    for j, g in enumerate(GROUP)
    if g == GROUP[i]
    for m in range(len(PATHS[j]))
  }
  x = list(pool.values())
  return (_advantage(i, k) - np.mean(x)) / (np.std(x, ddof=1) + 1e-6)


def _hard(i, k):
  leaves = _leaves(PATHS[i][k])
  return np.mean([OUTCOME[j] - _value(j, -1) for j in leaves])


def _zscore(i, pool):
  x = [OUTCOME[j] for j in pool]
  varied = len(x) > 1 and np.std(x) > 0
  return (OUTCOME[i] - np.mean(x)) / (np.std(x, ddof=1) + 1e-6) if varied else 0


def _splits(i, k):
  """Beside the group, each set of leaves that had parted before turn k."""
  total = _zscore(i, [j for j, g in enumerate(GROUP) if g == GROUP[i]])
  for at in range(k):
    pool = _leaves(PATHS[i][at])
    if len(pool) > len(_leaves(PATHS[i][at + 1])):
      total += _zscore(i, pool)
  return total


WANT = {
  'splits': _splits,
  'tree': _advantage,
  'shrunk': lambda i, k: _advantage(i, k, 1.5),
  'normal': _normal,
  'hard': _hard,
  'soft': _hard,
}


@pytest.mark.parametrize('variant', VARIANTS)
@pytest.mark.parametrize('name', WANT)
def test_is_the_equation(name, variant):
  got = np.asarray(found(variant)[1][name][0])
  for i, path in enumerate(PATHS):
    np.testing.assert_array_equal(got[i, len(path) :], 0)
    for k in range(len(path)):
      constant = GROUP[i] in (2, 3)  # alone, or all outcomes equal
      want = 0.0 if constant else WANT[name](i, k)
      np.testing.assert_allclose(got[i, k], want, rtol=1e-9, atol=1e-12)
      if constant:
        assert got[i, k] == 0
  assert np.all(got[len(PATHS) :] == 0)


@pytest.mark.parametrize('variant', VARIANTS)
def test_soft_attribution_pulls_as_all_copies_together(variant):
  """w A of a shared turn is the sum of A over its leaves; hard: their mean."""
  batch, told = found(variant)
  leaves = np.asarray(told['leaves'][0])
  for name, divide in (('soft', False), ('hard', True)):
    a, weight = map(np.asarray, told[name])
    shared = 0
    for i, path in enumerate(PATHS):
      for k, node in enumerate(path):
        here = (batch.rows.traj == i) & (batch.rows.turn == k)
        here &= batch.rows.sampled
        copies = _leaves(node)
        want = sum(leaves[j, k] for j in copies)
        want = want / len(copies) if divide else want
        shared += len(copies) > 1
        owned = _owner(i, k) == i
        np.testing.assert_allclose(
          weight[here] * a[i, k], want * owned, atol=1e-12
        )
    assert shared > 4


def test_unscored_trajectories_say_nothing():
  """A trajectory with a failed judge neither counts nor gets credit."""
  batch = unscored.turns(_lay('history').batch, (1, 3))
  outcome = batch.outcome.copy()
  link = links('episode_outcome', 'tree_advantage')

  @jax.jit
  def run(outcome):
    credit, _ = chain.stream(link, batch.replace(outcome=outcome), {})
    return credit.turn

  one = run(outcome)
  outcome[1] = 1e3
  two = run(outcome)
  np.testing.assert_array_equal(one, two)
  assert not np.any(one[1])
  assert np.any(one[0])
