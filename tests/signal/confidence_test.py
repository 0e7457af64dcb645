"""Confidence of a span: a mean in nats, whatever the length of the span."""

import numpy as np
import pytest

import agentrl.advantage  # noqa: F401  registers the links
from agentrl import registry
from agentrl.advantage import chain
from agentrl.configs import shop_r1
from agentrl.nn.vocab_blocks import HeadConfig
from agentrl.signal import confidence
from agentrl.signal.base import Context
from agentrl.types import Module, Span, TrainState
from tests import batches
from tests.advantage import one_token_turns

pytestmark = pytest.mark.usefixtures('float64')


@pytest.mark.parametrize('layout', batches.BY_DAY)
def test_mean_divergence_from_the_uniform_distribution_in_plain_loops(layout):
  """s_k = Σ_v p_v log(V p_v), a mean over the thought; 0 without one."""
  s, r = batches.story(seed=5), np.random.default_rng(2)
  laid = batches.lay(s, layout, padding=2)
  shape = laid.batch.rows.tokens.shape
  p = r.dirichlet(np.full(6, 0.7), shape)  # [N, T, V]
  entropy, divergence = -(p * np.log(p)).sum(-1), (p * np.log(6 * p)).sum(-1)
  span = np.where(r.random(shape) < 0.5, Span.THOUGHT, Span.CALL)
  rows = laid.batch.rows.replace(span=span.astype(np.int8))
  unscored = np.array(laid.batch.turns.valid)
  unscored[1, 0] = False
  batch = laid.batch.replace(
    rows=rows, turns=laid.batch.turns.replace(scored=unscored)
  )
  got = confidence.of_span(entropy, np.log(6), batch, Span.THOUGHT)
  here = rows.sampled & (span == Span.THOUGHT)
  seen = set()
  for i, k in np.ndindex(*got.shape):
    mine = divergence[here & (rows.traj == i) & (rows.turn == k)]
    want = mine.mean() if mine.size and unscored[i, k] else 0
    np.testing.assert_allclose(got[i, k], want, atol=1e-12)
    seen.add(mine.size)
  assert len(seen) > 2


WORDS = 100
OF_WORDS = Module(
  {}, None, head=lambda params: (np.zeros((3, WORDS)), HeadConfig(axis=1))
)


def test_shop_r1_pays_a_sure_rationale_whatever_its_length():
  """Equal actions; thoughts of 2, 6, 3 and 0 tokens, each of one entropy."""
  c = shop_r1.get_config('tiny')
  thought, h = np.array([2, 6, 3, 0]), np.array([0.4, 0.4, 2.0, 0.0])
  batch = one_token_turns.make_batch([[0.8]] * 4, sizes=thought[:, None] + 2)
  own = np.arange(8)[None] < thought[:, None]  # [N, T]
  span = np.where(own, Span.THOUGHT, Span.OTHER).astype(np.int8)
  entropy = np.where(own, h[:, None], 4.0)  # the action is unsure
  batch = batch.replace(rows=batch.rows.replace(span=span))
  context = Context({'policy': OF_WORDS}, {}, 1)
  signal = confidence.confidence(context, **c.hp.signal.confidence)
  state = TrainState(0, {'policy': {}}, {}, {}, (), None)
  signals, _ = signal.score(state, batch, {'old_entropy': entropy})
  s = signals['confidence'][:, 0]
  want = np.where(thought > 0, np.log(WORDS) - h, 0)
  np.testing.assert_allclose(s, want, rtol=1e-12)
  hp = c.hp.episode.to_dict()
  links = [
    registry.bind('link', x, hp.get(x, {}), 'episode') for x in c.stream.episode
  ]
  credit, _ = chain.advantage({'episode': links}, {}, (), batch, signals)
  total = 0.8 + 0.005 * want
  z = (total - total.mean()) / (total.std(ddof=1) + 1e-6)
  np.testing.assert_allclose(credit.turn[:, 0], z, rtol=1e-9)
  assert z[0] == z[1] > z[2] > z[3]
