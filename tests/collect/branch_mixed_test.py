"""TRACE's budget: who may begin where, and who gets the attempts."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import registry
from agentrl.collect import branch_mixed
from agentrl.configs import base, trace
from agentrl.ops import logistic
from agentrl.run import build
from agentrl.run.play import collect as collect_lib
from agentrl.task.base import make_attempts
from agentrl.types import Batch, CollectInputs
from tests import errors
from tests.collect import branch_test


def mixed(p, n):
  return 1 - p**n - (1 - p) ** n


def allocated(where, count, most, seed=0):
  noise = np.random.default_rng(seed).uniform(size=where.chance.shape)
  where = jax.tree.map(jnp.asarray, where)
  return jax.device_get(
    branch_mixed.allocate(where, jnp.asarray(noise), count=count, most=most)
  )


def added(origin, turns, shape):
  out = np.zeros(shape, int)
  np.add.at(out, (origin, turns), 1)
  return out


def test_no_other_allocation_makes_more_mixed_sets():
  """Against all ways to give 4 attempts to 5 anchors."""
  chance = np.array([[0.5, 0.1, 0.9], [0.7, 0.02, 0.4]])
  leaves = np.array([[3, 1, 1], [2, 1, 1]])
  offered = np.array([[1, 1, 1], [1, 1, 0]]) > 0
  where = branch_mixed.Anchors(chance, leaves, offered)
  origin, turns = allocated(where, 4, most=3)
  got = added(origin, turns, chance.shape)
  assert not np.any(got[~offered])

  def value(add):
    return np.sum(mixed(chance, leaves + add)[offered])

  at = list(zip(*np.nonzero(offered), strict=True))
  best = -np.inf
  for pick in itertools.combinations_with_replacement(at, 4):
    add = added([i for i, _ in pick], [k for _, k in pick], chance.shape)
    best = max(best, value(add)) if np.max(add) <= 3 else best
  np.testing.assert_allclose(value(got), best, atol=1e-4)


def test_hopeless_and_solved_tasks_get_no_attempts():
  chance = np.array([[0.001] * 3, [0.5] * 3, [0.999] * 3])
  where = branch_mixed.Anchors(
    chance, np.ones((3, 3), int), np.ones((3, 3), bool)
  )
  origin, turns = allocated(where, 9, most=8)
  assert set(origin) == {1}
  assert set(turns) == {0, 1, 2}


def test_where_anchors_run_out_tasks_begin_anew():
  offered = np.zeros((3, 2), bool)
  offered[1] = True
  where = branch_mixed.Anchors(
    np.full((3, 2), 0.5), np.ones((3, 2), int), offered
  )
  origin, turns = allocated(where, 7, most=2)
  got = added(origin, turns, (3, 2))
  np.testing.assert_array_equal(got[1], [2, 2])
  np.testing.assert_array_equal(got[:, 1], [0, 2, 0])
  assert np.sum(got) == 7
  assert np.all(got[[0, 2], 0] >= 1)


def test_ties_are_broken_by_luck():
  where = branch_mixed.Anchors(
    np.full((8, 1), 0.5), np.ones((8, 1), int), np.ones((8, 1), bool)
  )
  draws = {tuple(sorted(allocated(where, 2, 1, seed)[0])) for seed in range(8)}
  assert len(draws) > 3


STATE = np.array([[1, 2, 3], [1, 2, 9], [1, 4, 2], [1, 2, 3], [5, 6, 7]])
VALID = np.array([[1, 1, 1], [1, 1, 0], [1, 1, 1], [1, 1, 0], [1, 1, 1]]) > 0
GROUP = np.array([0, 0, 0, 2, 2])
SOLVED = np.array([1.0, 0.0, 0.0, 1.0, 1.0])
LIVE = np.array([1, 1, 1, 1, 0]) > 0


@pytest.mark.usefixtures('float64')
def test_chances_are_the_regression():
  """Features in a loop: own outcomes left out of the fit, not of the use."""
  r = np.random.default_rng(1)
  entropy = r.uniform(size=STATE.shape)
  logit = lambda p: np.log(p / (1 - p))  # noqa: E731

  def features(i, k, left_out):
    mates = [
      j
      for j in range(5)
      if LIVE[j] and GROUP[j] == GROUP[i] and not (left_out and j == i)
    ]
    met = [j for j in mates if STATE[i, k] in STATE[j][VALID[j]]]
    m = (sum(SOLVED[j] for j in mates) + 0.5) / (len(mates) + 1)
    c = (sum(SOLVED[j] for j in met) + m) / (len(met) + 1)
    if k == 0:
      return [1, 0, 0, 0], logit(m)
    rise = entropy[i, k - 1] - entropy[i, 0]
    return [1, logit(c) - logit(m), k / 3, rise], logit(m)

  x, offset, y, weight = [], [], [], []
  for i, k in np.ndindex(5, 3):
    if VALID[i, k] and LIVE[i]:
      phi, at = features(i, k, True)
      x.append(phi)
      offset.append(at)
      y.append(SOLVED[i])
      weight.append(1 / np.sum(VALID[i]))
  w = logistic.fit(
    *map(np.array, (x, y)),
    weight=np.array(weight),
    offset=np.array(offset),
    ridge=0.5,
  )
  got = branch_mixed.chances(
    *map(jnp.asarray, (SOLVED,)),
    live=LIVE,
    group=jnp.asarray(GROUP),
    state=jnp.asarray(STATE),
    valid=jnp.asarray(VALID),
    entropy=jnp.asarray(entropy),
    ridge=0.5,
  )
  for i, k in np.ndindex(5, 3):
    phi, at = features(i, k, False)
    want = 1 / (1 + np.exp(-(at + np.dot(phi, w))))
    if VALID[i, k] and LIVE[i]:
      np.testing.assert_allclose(got[i, k], want, rtol=1e-9)


@pytest.mark.slow
def test_groups_grow_where_outcomes_may_differ(tmp_path):
  """In the world: repeats are exact, groups unequal, tokens weigh once."""
  c = branch_test._config(str(tmp_path), 'branch', 'turn')
  c.collect, c.hp.collect = 'branch_mixed', {'branch_mixed': {'every': 4}}
  c.stream, c.post = trace.get_config('tiny').stream, ('leaf_weight',)
  s = build.experiment(c)
  b, g = branch_test.B, branch_test.G
  attempts = make_attempts(np.arange(b) // g, g, branch_test.K, 1.0)
  f = jax.jit(functools.partial(collect_lib.rollout_and_score, s))
  got = jax.device_get(
    f(branch_test._params(s), attempts, jax.random.key(5), jnp.int32(0))
  )
  found = branch_test._check_prefixes(got)
  assert found
  branch_test._check_owners(got)
  assert np.all(got.ids['task'] == got.ids['group'])
  counts = np.bincount(got.ids['group'], minlength=2)
  assert np.sum(counts) == b
  assert np.all(counts >= g // 4)
  assert got.outcome.shape == (b,)


@pytest.mark.parametrize(('every', 'most'), [(1, 8), (6, 2)])
def test_the_first_attempts_must_leave_room(every, most):
  f = registry.bind('collect', 'branch_mixed', {'every': every, 'most': most})
  attempts = make_attempts(np.arange(16) // 8, 8, 3, 1.0)
  x = CollectInputs(sample=None, score=None, attempts=attempts, key=None)
  with errors.raises(ValueError, f'hp.collect.branch_mixed.every {every}'):
    f(x)


def test_first_turns_are_given_once():
  c = trace.get_config('tiny')
  registry.check(base.wiring(c), c)
  c.prefix = 'random_prefix'
  with errors.raises(ValueError, 'random_prefix'):
    registry.check(base.wiring(c), c)


def test_attempts_move_to_the_task_that_is_mixed():
  """Of eight that are left, to a task of two solved leaves in four."""
  solved = [1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 1.0]
  one = Batch.from_turns(
    [[[1], [2]]] * 8,
    [[[-1.0], [-1.0]]] * 8,
    reward=[[0.0, x] for x in solved],
    group=[0] * 4 + [1] * 4,
  )
  entropy = jnp.ones_like(one.turns.reward)
  one = one.replace(
    outcome=jnp.array(solved),
    turns=one.turns.replace(
      terms={**one.turns.terms, 'entropy': entropy, 'tokens': entropy}
    ),
  )
  asked = []

  class Enough(Exception):
    """Of the second attempts."""

  def sample(attempts, key):
    del key
    if attempts.prefix is None:
      return one
    asked.append(attempts)
    raise Enough

  x = CollectInputs(
    sample=sample,
    score=None,
    attempts=make_attempts(np.arange(16) // 8, 8, 3, 1.0),
    key=jax.random.key(0),
  )
  with pytest.raises(Enough):
    registry.bind('collect', 'branch_mixed', {'every': 2})(x)
  [later] = asked
  np.testing.assert_array_equal(later.task, later.group)
  assert np.sum(np.asarray(later.task) == 1) >= 7
  at = np.asarray(later.prefix.messages.origin)
  np.testing.assert_array_equal(np.asarray(later.task), at // 4)
  assert np.any(np.asarray(later.prefix.turns) == 1)
