"""Entropy-aware factors, against plain loops over a story."""

import functools

import jax
import numpy as np
import pytest

from agentrl.advantage import chain, entropy
from agentrl.types import LinkInputs
from tests import batches
from tests.batches import links

pytestmark = pytest.mark.usefixtures('float64')

STORY = batches.story(seed=5)
FINISH = {
  'factor': ('entropy_factor',),
  'batch': (('entropy_factor', {'by': (), 'lam': -0.7}),),
  'boost': ('entropy_boost',),
  'boost_group': (('entropy_boost', {'by': ('group',), 'coef': 0.5}),),
  'tokens': ('to_tokens', 'entropy_factor'),
  'plain': (),
}
VARIANTS = ('turn', batches.EXPLICIT)


def _all(batch, signals):
  out = {}
  for name, finish in FINISH.items():
    credit = chain.zero(batch).replace(turn=signals['given'])
    for link in links(*finish):
      x = LinkInputs(batch=batch, credit=credit, signals=signals)
      credit, _ = link(x)
    out[name] = chain.token_advantage(credit, batch.rows)
  return out


def _laid(layout='history', padding=2):
  laid = batches.lay(STORY, layout, padding=padding)
  given = np.random.default_rng(0).normal(size=laid.batch.turns.reward.shape)
  return (
    laid.batch,
    {'old_entropy': laid.tokens['entropy'], 'given': given},
    laid,
  )


@functools.cache
def results(variant):
  if variant == 'turn':
    batch, signals, laid = _laid('turn')
    found = jax.jit(_all)(batch, signals)
  else:
    batch, signals, laid = _laid('packed')
    shape = batch.rows.tokens.shape
    found = batches.on_a_mesh(_all, (batch, signals), shape)
  return {k: batches.read(x, STORY, laid) for k, x in found.items()}


def _loop_factor(s, lam, same):
  """α of every (trajectory, turn), from the equation."""
  h = [[np.mean(x) for x in turns] for turns in s.token['entropy']]
  out = []
  for i, turns in enumerate(h):
    every = [
      x for j, g in enumerate(s.group) for x in h[j] if same(g, s.group[i])
    ]
    low, high = min(every), max(every)
    u = lambda x, low=low, high=high: (x - low) / (high - low)  # noqa: E731
    mean = np.mean([np.exp(-lam * u(x)) for x in every])
    out.append([np.exp(-lam * u(x)) / mean for x in turns])
  return out


def _times(plain, alpha):
  return [
    [x * a for x, a in zip(xs, row, strict=True)]
    for xs, row in zip(plain, alpha, strict=True)
  ]


@pytest.mark.parametrize('variant', VARIANTS)
@pytest.mark.parametrize(
  ('name', 'lam', 'same'),
  [
    ('factor', 1.0, lambda g, h: g == h),
    ('tokens', 1.0, lambda g, h: g == h),
    ('batch', -0.7, lambda g, h: True),
  ],
)
def test_factor_is_the_equation(name, lam, same, variant):
  got = results(variant)
  want = _times(got['plain'], _loop_factor(STORY, lam, same))
  np.testing.assert_allclose(
    batches.flat(got[name]), batches.flat(want), rtol=1e-10, atol=1e-12
  )
  assert not np.allclose(batches.flat(want), batches.flat(got['plain']))


@pytest.mark.parametrize('variant', VARIANTS)
@pytest.mark.parametrize(
  ('name', 'coef'), [('boost', 0.2), ('boost_group', 0.5)]
)
def test_boost_is_the_equation(name, coef, variant):
  got, h = results(variant), STORY.token['entropy']
  want = []
  for i, turns in enumerate(h):
    pool = [
      j
      for j, g in enumerate(STORY.group)
      if name == 'boost' or g == STORY.group[i]
    ]
    every = np.concatenate([x for j in pool for x in h[j]])
    mean, std = np.mean(every), np.std(every, ddof=1) + 1e-6
    want.append([1 + coef * (x - mean) / std for x in turns])
  want = _times(got['plain'], want)
  np.testing.assert_allclose(
    batches.flat(got[name]), batches.flat(want), rtol=1e-10, atol=1e-12
  )


def test_golden_factor():
  h = np.array([[0.5, 1.0, 2.0]])
  ones = np.ones((1, 3), bool)
  got = entropy.factor(h, ones, np.zeros((1, 3), np.int32), 1.0)
  np.testing.assert_allclose(got, [[1.439256, 1.031272, 0.529473]], atol=1e-6)


def test_equal_entropies_give_exactly_one():
  """Also where a mean of equal tokens is not that token to the last bit."""
  batch, _, _ = _laid(padding=0)
  h = np.full(batch.rows.logp.shape, 0.1)
  credit = chain.zero(batch)
  one = credit.replace(turn=np.ones_like(credit.turn))
  link = jax.jit(links('entropy_factor')[0])
  signals = {'old_entropy': h}
  x = LinkInputs(batch=batch, credit=one, signals=signals)
  got, metrics = link(x)
  np.testing.assert_array_equal(got.turn, one.turn)
  assert float(metrics['entropy_factor'][0]) == 0


def test_turns_nobody_trains_on_do_not_count():
  """A turn of weight 0 with an extreme entropy keeps out of min and max."""
  batch, signals, _ = _laid(padding=0)
  rows, h = batch.rows, signals['old_entropy'].copy()
  gone = (rows.traj == 1) & (rows.turn == 2)
  weight = np.where(gone, 0.0, rows.weight)
  credit = chain.zero(batch).replace(
    turn=np.ones_like(batch.turns.reward), weight=weight
  )
  link = jax.jit(links('entropy_factor')[0])
  x = LinkInputs(batch=batch, credit=credit, signals={'old_entropy': h})
  one = link(x)[0].turn
  h[gone] = 1e6
  two = link(x)[0].turn
  np.testing.assert_array_equal(one, two)
  assert float(one[1, 2]) == 1
  assert np.any(one != 1)
