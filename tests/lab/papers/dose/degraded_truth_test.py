"""Planted errors: how much the reward knows, and how long an error lasts."""

import types

import jax
import numpy as np
import pytest

from agentrl.lab.papers.dose import degraded_truth
from agentrl.signal.base import Context
from tests import batches

STORY = batches.story(seed=7, groups=4, members=5)
LASTING = ('late', 'long', 'state', 'state_action')  # the same in every step
CONTEXT = Context({}, {}, 8)


def made(layout='history'):
  """The story with a known term, and turns 1 that were not scored."""
  laid = batches.lay(STORY, layout, padding=1)
  turns = laid.batch.turns
  known = np.random.default_rng(1).normal(size=turns.valid.shape)
  scored = np.array(turns.scored)
  scored[3, 0] = False
  turns = turns.replace(
    terms=turns.terms | {'known': known.astype(np.float32)}, scored=scored
  )
  return laid.batch.replace(turns=turns)


def rewards(batch, error, correlation=0.0, run=0, step=0):
  s = degraded_truth.degraded_truth(
    CONTEXT, term='known', correlation=correlation, error=error
  )
  train = types.SimpleNamespace(key=jax.random.key(run), step=step)
  signals, metrics = jax.jit(lambda b: s.score(train, b, {}))(batch)
  return np.asarray(signals['degraded_truth']), metrics


def z(x, on):
  x = np.asarray(x, np.float64)
  return np.where(on, (x - x[on].mean()) / x[on].std(), 0)


def live(batch):
  return np.asarray(batch.turns.valid) & np.asarray(batch.turns.scored)


@pytest.mark.parametrize('error', degraded_truth.ERRORS)
def test_what_is_known_and_the_error_are_mixed(error):
  batch = made()
  on, known = live(batch), batch.turns.terms['known']
  e, _ = rewards(batch, error)
  assert e[on].std() == pytest.approx(1, abs=1e-4)
  for rho in (0.0, 0.3, 1.0):
    x, metrics = rewards(batch, error, rho)
    want = rho * z(known, on) + np.sqrt(1 - rho**2) * z(e, on)
    np.testing.assert_allclose(x, want, atol=1e-5)
    got, count = metrics['degraded_truth/correlation']
    assert count == 1
    assert got == pytest.approx(np.corrcoef(x[on], known[on])[0, 1], abs=1e-5)
  assert not x[~on].any()


@pytest.mark.parametrize('error', degraded_truth.ERRORS)
def test_what_lasts_is_the_same_in_every_step_of_a_run(error):
  batch = made()
  first, second, other = (
    rewards(batch, error, run=run, step=step)[0]
    for run, step in ((0, 3), (0, 4), (1, 3))
  )
  np.testing.assert_array_equal(first, rewards(batch, error, step=3)[0])
  assert np.array_equal(first, second) == (error in LASTING)
  assert np.array_equal(first, other) == (error in ('late', 'long'))


def test_an_error_is_a_function_of_what_it_says():
  """Of the cells that share a key the values are equal, others differ."""
  batch = made()
  on = live(batch)
  b, k = on.shape
  rows = batch.rows
  tokens = np.zeros((b, k), int)
  length = np.zeros((b, k), int)
  for row, column in zip(*np.nonzero(rows.sampled), strict=True):
    at = rows.traj[row, column], rows.turn[row, column]
    tokens[at] = tokens[at] if length[at] else rows.tokens[row, column]
    length[at] += 1
  index = np.broadcast_to(np.arange(k), (b, k))
  own = np.broadcast_to(np.arange(b)[:, None], (b, k))
  state = np.asarray(batch.turns.state)
  keys = {
    'white': own * k + index,
    'trajectory': own,
    'late': index,
    'long': length,
    'state': state,
    'state_action': state * 10_000 + tokens,
  }
  assert keys.keys() == degraded_truth.ERRORS.keys()
  for error, key in keys.items():
    e, _ = rewards(batch, error)
    values = {x: set(e[on & (key == x)].tolist()) for x in np.unique(key[on])}
    assert all(len(x) == 1 for x in values.values()), error
    assert len({min(x) for x in values.values()}) == len(values), error
  assert len(np.unique(state[on])) < on.sum()


def test_layouts_have_the_same_errors():
  for error in ('long', 'late', 'state'):
    several = [rewards(made(x), error)[0] for x in batches.LAYOUTS]
    for x in several[1:]:
      np.testing.assert_array_equal(x, several[0])
