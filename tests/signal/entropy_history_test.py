"""The history of entropies by turn, and the losses that hold on to it."""

import jax
import numpy as np
import pytest

import agentrl.loss  # noqa: F401  registers the losses
from agentrl import registry, schedule
from agentrl.learner import update
from agentrl.signal.base import Context
from agentrl.signal.entropy_history import entropy_history
from agentrl.types import Module
from tests import batches

pytestmark = pytest.mark.usefixtures('float64')

STORIES = [batches.story(seed=s) for s in (0, 1, 2)]
SIZE = 3  # turns of the history; the stories have up to 4
CONTEXT = Context({'policy': Module({}, None)}, {}, 1)


def _state():
  wiring = registry.MethodSpec(
    signal=('entropy_history',),
    hp={'signal': {'entropy_history': {'turns': SIZE, 'least': 15}}},
  )
  made = update.Algorithm.from_spec(wiring, CONTEXT)
  return update.init(made, jax.random.key(0)), entropy_history(
    CONTEXT, turns=SIZE, least=15
  )


def _after(stories, layout):
  """What is told about the last story, with the others before it."""
  state, signal = _state()
  for s in stories:
    laid = batches.lay(s, layout, padding=2)
    signals = {'old_entropy': laid.tokens['entropy']}
    told, _ = signal.score(state, laid.batch, signals)
    state, _ = signal.update(state, laid.batch, signals, None)
  return told, laid


def _by_hand(stories):
  """H̄ and the number of turns seen, by place."""
  means, seen = [[] for _ in range(SIZE)], [0] * SIZE
  for s in stories:
    pools = [[] for _ in range(SIZE)]
    for turns in s.token['entropy']:
      for k, x in enumerate(turns):
        pools[min(k, SIZE - 1)].append(x)
    for k, pool in enumerate(pools):
      seen[k] += len(pool)
      if pool:
        means[k].append(np.mean(np.concatenate(pool)))
  return [np.mean(x) if x else 0 for x in means], seen


def test_history_is_the_mean_over_past_iterations():
  told, laid = _after(STORIES, 'turn')
  mean, seen = _by_hand(STORIES[:-1])
  assert min(seen) > 15
  s = STORIES[-1]
  got = batches.read(told['entropy_history'], s, laid)
  for turns in got:
    for k, x in enumerate(turns):
      np.testing.assert_allclose(x, mean[min(k, SIZE - 1)], rtol=1e-12)
  known = batches.flat(batches.read(told['entropy_history.known'], s, laid))
  assert np.all(known == 1)


def test_turns_seen_too_rarely_are_not_known():
  told, laid = _after(STORIES[:2], 'turn')
  _, seen = _by_hand(STORIES[:1])
  assert seen[0] < 15  # one iteration is too few for any of them
  known = batches.read(told['entropy_history.known'], STORIES[1], laid)
  for turns in known:
    for k, x in enumerate(turns):
      assert np.all(x == (seen[min(k, SIZE - 1)] >= 15))


def test_what_is_not_trained_on_leaves_no_trace():
  state, signal = _state()
  laid = batches.lay(STORIES[0], 'turn', padding=2)
  rows = laid.batch.rows.replace(weight=np.zeros_like(laid.batch.rows.weight))
  signals = {'old_entropy': laid.tokens['entropy']}
  after, _ = signal.update(state, laid.batch.replace(rows=rows), signals, None)
  assert not any(np.any(x) for x in jax.tree.leaves(after.signal))
  assert jax.tree.structure(after) == jax.tree.structure(state)


def test_phases():
  w = schedule.Schedule('phases', 0.0, 2.0, 100)
  assert float(w.at(0)) == pytest.approx(2.0)
  assert float(w.at(40)) == pytest.approx(2 * (0.8 + 0.2 * np.exp(-0.8)))
  assert float(w.at(50)) == pytest.approx(1.6 * np.exp(-1.5))
  assert float(w.at(900)) == pytest.approx(1.6 * np.exp(-3.0))
