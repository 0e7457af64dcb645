"""What the filters keep, against loops over the story."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.advantage import chain
from agentrl.types import Span
from tests import batches
from tests.advantage import estimators
from tests.batches import links

pytestmark = pytest.mark.usefixtures('float64')

STORY = batches.story(seed=21, groups=2, members=3)


def _run(laid, stream, post=()):
  @jax.jit
  def run(batch, signals):
    streams = {'a': links(*stream)}
    credit, metrics = chain.advantage(streams, {}, links(*post), batch, signals)
    return credit, metrics, chain.token_advantage(credit, batch.rows)

  credit, metrics, a = run(laid.batch, laid.signals)
  told = (
    batches.flat(batches.read(x, STORY, laid)) for x in (a, credit.weight)
  )
  return credit, metrics, *told


def _white_turns():
  """Turn GAE, whitened over turns."""
  a, _ = estimators.gae_turns(STORY)
  every = np.array([x[0] for turns in a for x in turns])
  mean, std = np.mean(every), np.sqrt(np.var(every, ddof=1) + 1e-8)
  return batches.flat([[(x - mean) / std for x in turns] for turns in a])


@pytest.mark.parametrize('layout', batches.BY_DAY)
def test_odysseus_whitens_then_keeps_what_is_positive(layout):
  laid = batches.lay(STORY, layout, padding=1)
  whiten = ('whiten', {'unit': 'turn'})
  credit, metrics, a, weight = _run(
    laid, ('turn_reward', 'gae_turns'), (whiten, 'positive_only')
  )
  want = _white_turns()
  np.testing.assert_allclose(a, want, atol=1e-9)
  np.testing.assert_array_equal(weight, want > 0)
  assert 0 < weight.sum() < weight.size
  kept, whole = metrics['post/kept']
  assert (kept, whole) == (weight.sum(), weight.size)
  # The critic's targets and weights are those of every turn.
  plain, *_ = _run(laid, ('turn_reward', 'gae_turns'))
  for name in ('value', 'value.weight'):
    np.testing.assert_array_equal(credit.target[name], plain.target[name])


def test_with_nothing_positive_nothing_is_learned():
  """An advantage of 0 is not positive."""
  turns = [[-abs(r) * (k > 0) for k, r in enumerate(x)] for x in STORY.reward]
  laid = batches.lay(STORY._replace(reward=turns), padding=1)
  credit, metrics, *_ = _run(laid, ('turn_reward',), ('positive_only',))
  assert not np.any(credit.weight)
  assert float(metrics['post/kept'][0]) == 0


def _ids(laid, states):
  """The batch with these states, its padding alike: it must not count."""
  turns = laid.batch.turns
  state = np.zeros(turns.state.shape, np.int32)
  for i, row in enumerate(states):
    state[i, : len(row)] = row
  batch = laid.batch.replace(turns=turns.replace(state=state))
  return laid._replace(batch=batch)


@pytest.mark.parametrize('layout', batches.BY_DAY)
def test_the_best_turn_of_a_state_is_imitated(layout):
  laid = _ids(batches.lay(STORY, layout, padding=2), STORY.state)
  _, _, a, weight = _run(laid, ('turn_reward', ('imitate_best', {})))

  def best(i, k):
    same = [
      STORY.reward[j][m]
      for j, m in estimators.steps(STORY, i)
      if STORY.state[j][m] == STORY.state[i][k]
    ]
    return float(STORY.reward[i][k] == max(same) > 0.1)

  want = batches.flat(estimators.spread(STORY, best))
  np.testing.assert_array_equal(a, want)
  np.testing.assert_array_equal(weight, want)
  assert 0 < want.sum() < want.size


def test_equal_turns_are_all_best_and_unscored_ones_never():
  laid = batches.lay(STORY)
  turns = laid.batch.turns
  same = turns.replace(
    reward=np.ones_like(turns.reward),
    scored=np.arange(turns.valid.size).reshape(turns.valid.shape) != 0,
  )
  laid = laid._replace(batch=laid.batch.replace(turns=same))
  credit, *_ = _run(laid, ('turn_reward', 'imitate_best'))
  np.testing.assert_array_equal(credit.turn, same.valid & same.scored)
  high = ('imitate_best', {'threshold': 1.0})
  assert not jnp.any(_run(laid, ('turn_reward', high))[0].weight)


@pytest.mark.parametrize(('turns', 'first'), [(1.0, 1), (2.9, 2), (0.5, 0)])
def test_first_turns_and_no_less_weight(turns, first):
  laid = batches.lay(STORY, 'packed', padding=1)
  own = ('to_tokens', 'kl_in_reward')
  _, _, before, whole = _run(laid, ('turn_reward', *own))
  stream = ('turn_reward', *own, ('first_turns', {'turns': turns}))
  _, metrics, a, weight = _run(laid, stream)
  turn = batches.flat(
    [[np.full(n, k) for k, n in enumerate(sizes)] for sizes in STORY.size]
  )
  np.testing.assert_allclose(a, np.where(turn < first, before, 0))
  np.testing.assert_array_equal(weight, whole)
  kept, total = metrics['a/taught']
  np.testing.assert_allclose(
    [kept, total], [weight[turn < first].sum(), weight.sum()]
  )


def test_a_span_is_left_out_of_every_loss():
  laid = batches.lay(STORY, 'packed')
  rows = laid.batch.rows
  thought = rows.sampled & (rows.tokens % 2 == 0)
  span = np.where(thought, Span.THOUGHT, Span.ANSWER).astype(np.int8)
  laid = laid._replace(batch=laid.batch.replace(rows=rows.replace(span=span)))
  credit, metrics, *_ = _run(laid, ('episode_return',), ('without_span',))
  np.testing.assert_array_equal(
    credit.weight, np.where(thought, 0, rows.weight)
  )
  assert 0 < metrics['post/kept'][0] < metrics['post/kept'][1]
