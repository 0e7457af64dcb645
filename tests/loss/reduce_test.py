"""Coefficients against loops over trajectories, in every layout."""

import jax
import numpy as np
import pytest

import agentrl.loss  # noqa: F401  registers the reducers
from agentrl import mesh, registry
from tests import batches

pytestmark = pytest.mark.usefixtures('float64')

STORY = batches.story(seed=13, groups=2)
WEIGHT = [
  [np.where(np.arange(n) % 3 == 1, 0.0, 1.0 + (i % 2)) for n in sizes]
  for i, sizes in enumerate(STORY.size)
]
WEIGHT[2] = [0 * w for w in WEIGHT[2]]  # a trajectory that was dropped
WEIGHT[1][0] = 0 * WEIGHT[1][0]  # and a turn
REDUCERS = ('fixed', 'token_mean', 'trajectory_mean', 'trajectory_turn_mean')


def _by_hand(name):
  sums = [sum(w.sum() for w in turns) for turns in WEIGHT]
  live = sum(s > 0 for s in sums)
  out = []
  for turns, whole in zip(WEIGHT, sums, strict=True):
    k = sum(w.sum() > 0 for w in turns)
    out.append([])
    for w in turns:
      by = {
        'token_mean': sum(sums),
        'trajectory_mean': live * whole,
        'trajectory_turn_mean': live * k * w.sum(),
        'fixed': live * 50,
      }[name]
      out[-1].append(w / by if w.any() else 0 * w)
  return out


def _laid(layout):
  laid = batches.lay(STORY, layout, padding=1)
  weight = np.zeros(laid.batch.rows.tokens.shape)
  for i, turns in enumerate(WEIGHT):
    for k, w in enumerate(turns):
      rows = laid.batch.rows
      weight[rows.sampled & (rows.traj == i) & (rows.turn == k)] = w
  return laid, weight


def _reduce(name, weight, batch):
  hp = {'length': 50} if name == 'fixed' else {}
  b, k = batch.turns.valid.shape
  return registry.bind('loss_aggregation', name, hp)(weight, batch.rows, b, k)


@pytest.mark.parametrize('name', REDUCERS)
@pytest.mark.parametrize('layout', batches.LAYOUTS)
def test_coefficients(name, layout):
  laid, weight = _laid(layout)
  got = jax.jit(_reduce, static_argnums=0)(name, weight, laid.batch)
  np.testing.assert_allclose(
    batches.flat(batches.read(got, STORY, laid)),
    batches.flat(_by_hand(name)),
    rtol=1e-12,
  )
  assert not np.asarray(got)[~laid.batch.rows.sampled].any()


@pytest.mark.parametrize('name', REDUCERS)
def test_no_weight_gives_no_coefficient(name):
  laid, weight = _laid('turn')
  got = np.asarray(_reduce(name, 0 * weight, laid.batch))
  np.testing.assert_array_equal(got, 0)


def test_prompt_tokens_belong_to_their_trajectory():
  """Supervised weights may stand outside of turns."""
  laid, _ = _laid('history')
  rows = laid.batch.rows
  weight = ((rows.traj >= 0) & (rows.turn < 0)).astype(float)
  got = np.asarray(_reduce('trajectory_mean', weight, laid.batch))
  live = len(STORY.size)
  np.testing.assert_allclose(got, weight / (2 * live))  # prompts of 2 tokens


@pytest.mark.parametrize('name', REDUCERS)
def test_on_an_explicit_mesh(name):
  laid, weight = _laid('packed')
  want = _reduce(name, weight, laid.batch)
  with jax.set_mesh(mesh.make({'fsdp': 2, 'tensor': 2})):
    placed, w = batches.place((laid, weight), laid.batch.rows.tokens.shape)
    got = jax.jit(_reduce, static_argnums=0)(name, w, placed.batch)
  np.testing.assert_allclose(got, want, rtol=1e-12)
