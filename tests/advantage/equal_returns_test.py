"""Returns that are equal up to rounding teach nothing, and others all."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl import ops, registry, segment
from agentrl.advantage import chain, task_value
from agentrl.curate import select
from agentrl.types import Batch
from tests.advantage import one_token_turns

MEMBERS = 4
LINKS = {
  'grpo': ('center', 'scale'),
  'dr_grpo': ('center',),
  'rloo': ('leave_one_out',),
  'whiten': (('whiten', {'by': ('group',)}),),
  'batch': (('whiten', {'by': ()}),),
  'min_max': ('min_max',),
  'rank': ('rank',),
  'best': ('lead_of_best',),
  'tree': ('tree_advantage', 'scale'),
  'leaves': ('average', 'center', 'scale'),
  'cells': (('standardize', {'by': ('group',), 'least': 1}),),
  'tokens': ('center_tokens',),
  'moved': ('to_tokens', 'leave_one_out_tokens'),
}


def batch_of(reward, valid=None, members=MEMBERS) -> Batch:
  """One token a turn; groups of members that stand together."""
  group = (np.arange(len(reward)) // members).tolist()
  batch = one_token_turns.make_batch(
    reward, group=group, valid=valid, dtype=np.float32
  )
  return batch.replace(turns=batch.turns.replace(state=batch.turns.node))


@functools.partial(jax.jit, static_argnums=1)
def credit_of(batch: Batch, name: str):
  links = ('episode_return', *LINKS[name])
  return chain.compute_advantage(links, batch).token


def rewards(kind: str, r: np.random.Generator, k: int) -> np.ndarray:
  """What one member earns; the others earn the same in another order."""
  n = int(r.integers(1, k + 1))
  if kind == 'real':
    return np.float32(r.normal(size=n) * 10.0 ** r.integers(-6, 5))
  if kind == 'decimal':
    return np.float32(np.round(r.uniform(-5, 5, n), 1))
  if kind == 'offset':
    return np.float32(1000 + r.random(n))
  x = np.float32(1e4 * r.normal(size=n // 2))  # cancels
  return np.concatenate([x, -x, np.float32([0.1] * (n % 2))])


@functools.cache
def shuffled(kind: str, groups: int, k: int, seed=0) -> Batch:
  """Groups of equal multisets of rewards, among turns that earn nothing."""
  r = np.random.default_rng(seed)
  reward = np.zeros((groups * MEMBERS, k), np.float32)
  valid = np.zeros(reward.shape, bool)
  for g in range(groups):
    x = rewards(kind, r, k)
    for i in range(g * MEMBERS, (g + 1) * MEMBERS):
      length = int(r.integers(max(len(x), 1), k + 1))
      at = r.choice(length, len(x), replace=False)
      reward[i, at], valid[i, :length] = x[r.permutation(len(x))], True
  return batch_of(reward, valid)


def small(*rows, other=()) -> np.ndarray:
  """The rows and then the others, in the one small shape that is compiled."""
  x = np.zeros((8, 13), np.float32)
  for i, row in [*enumerate(rows), *enumerate(other, 4)]:
    x[i, : len(row)] = row
  return x


def summands() -> np.ndarray:
  """No float32 is 0.1: one less ten times a tenth is nothing, too."""
  tenths = [0, 0, 0, 0.3, -0.1, -0.1, -0.1]
  return small([1.0] + [-0.1] * 10, [0.5] + [-0.1] * 5, tenths)


@pytest.mark.parametrize('name', LINKS)
@pytest.mark.parametrize('kind', ['real', 'decimal', 'offset', 'cancel'])
def test_the_order_of_rewards_does_not_matter(kind, name):
  batch = shuffled(kind, 1 if name == 'batch' else 400, 40)
  np.testing.assert_array_equal(credit_of(batch, name), 0)


@pytest.mark.parametrize('name', LINKS)
def test_one_sum_of_different_summands(name):
  three = [3.3, 4.4, 0.1], [4.4, 3.3, 0.1], [0.1, 3.3, 4.4], [3.3, 0.1, 4.4]
  for x in (small(*three, other=three[::-1]), summands()):
    np.testing.assert_array_equal(credit_of(batch_of(x), name), 0)


BETWEEN = {
  'clip': {},
  'gate': {'thresholds': (0.0,)},
  'require_members': {'by': ('group',), 'least': 2},
  'scale_by_difficulty': {},
  'scale_by_max': {},
}


@pytest.mark.parametrize('name', BETWEEN)
def test_what_cuts_or_scales_returns_leaves_them_equal(name):
  """One less ten times a tenth is 0, and stays so in what follows."""
  links = ('episode_return', (name, BETWEEN[name]), 'center', 'scale')
  credit = jax.jit(functools.partial(chain.compute_advantage, links))(
    batch_of(summands())
  )
  np.testing.assert_array_equal(credit.token, 0)


@pytest.mark.slow
def test_what_else_compares_returns():
  batch = shuffled('real', 200, 30)
  assert not np.any(jax.jit(task_value.task_value)(batch))
  for curate in (select.most_varied, select.contrastive):
    kept = jax.jit(functools.partial(curate, share=1.0))(batch)
    assert not np.any(kept.turns.scored)
  zero = chain.zero(batch)
  for links in (
    ['episode_return', 'center'],
    ['turn_reward', 'episode_sum', 'scale'],
    ['turn_reward', 'return_to_go', ('center', {'by': ('group', 'state')})],
  ):
    streams = {'a': [_bound(x) for x in links]}
    credit, metrics = jax.jit(
      functools.partial(chain.advantage, streams, {}, [], signals={})
    )(batch)
    total, weight = metrics['a/zero_variance_frac']
    assert float(total) == float(weight) > 0
    assert jax.tree.structure(credit.turn) == jax.tree.structure(zero.turn)


def _bound(link):
  name, hp = (link, {}) if isinstance(link, str) else link
  return registry.bind('link', name, hp)


@pytest.mark.parametrize('kind', ['plain', 'positive', 'large', 'tiny'])
def test_unequal_returns_are_those_of_float64(kind):
  r = np.random.default_rng(1)
  b, k = 1600, 40
  valid = np.arange(k) < r.integers(1, k + 1, (b, 1))
  x = r.normal(size=(b, k))
  x = {
    'plain': x,
    'positive': 5 * abs(x),
    'large': 1e4 * x,
    'tiny': 1e-6 * x,
  }[kind]
  x = np.where(valid, np.float32(x), 0)
  total = np.float64(x).sum(1).reshape(-1, MEMBERS)
  away = total - total.mean(1, keepdims=True)
  std = total.std(1, ddof=1, keepdims=True)
  batch = batch_of(x, valid)
  want = {
    'dr_grpo': away,
    'grpo': away / (std + 1e-6),
    'rloo': away * MEMBERS / (MEMBERS - 1),
  }
  for name, y in want.items():
    got = np.asarray(credit_of(batch, name))[:, 0].reshape(-1, MEMBERS)
    largest = abs(y).max(1, keepdims=True)
    assert np.max(abs(got - y) / largest) < 1e-5


@pytest.mark.parametrize('name', ['dr_grpo', 'grpo', 'rloo', 'whiten'])
@pytest.mark.parametrize('bad', [np.nan, np.inf])
def test_what_is_not_finite_is_seen(bad, name):
  """An update without a finite gradient is skipped and ends a run."""
  x = np.ones((8, 13), np.float32)
  x[1, 0] = bad
  got = np.asarray(credit_of(batch_of(x), name))
  assert not np.isfinite(got[:MEMBERS]).all()
  np.testing.assert_array_equal(got[MEMBERS:], 0)


@pytest.mark.parametrize(
  'x', [[1000.0, 1000.001], [1e-6, 2e-6], [1e-25, 3e-25], [-1e4, -9999.99]]
)
def test_small_differences_are_not_flattened(x):
  x = np.float32(x)
  batch = batch_of(small(*x[:, None]), members=2)
  got = np.asarray(credit_of(batch, 'dr_grpo'))[:2, 0]
  want = np.float64(x) - np.float64(x).mean()
  np.testing.assert_allclose(got, want, rtol=1e-5)
  place = np.asarray(credit_of(batch, 'rank'))[:2, 0]
  np.testing.assert_array_equal(place, [-1, 1])


def test_members_of_one_return_share_their_rank_and_their_lead():
  x = small([3.3, 4.4, 0.1], [0.1, 4.4, 3.3], [1.0])
  place = np.asarray(credit_of(batch_of(x), 'rank'))[:4, 0]
  np.testing.assert_allclose(place, [2 / 3, 2 / 3, -1 / 3, -1])
  assert not np.any(credit_of(batch_of(x), 'best'))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=5, max_size=5))
def test_a_mean_lies_within_its_group(x):
  x = jnp.asarray(x, jnp.float32)
  m = jax.jit(ops.group_moments)(x, jnp.zeros(5, jnp.int32))
  assert np.all((m.low <= m.mean) & (m.mean <= m.high))
  assert np.all((m.var > 0) == (m.high - m.low > m.slack))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=7, max_size=7))
def test_a_sum_over_turns_is_rounded_once(x):
  want = np.float32(np.float64(np.float32(x)).sum())
  ones = jnp.ones((1, 7), bool)
  x = jnp.asarray([x], jnp.float32)
  total = jax.jit(segment.sum_turns, static_argnums=1)(x, 1.0, ones)
  size = np.sum(np.abs(x), dtype=np.float64)
  # Correct up to the rounding of a rounding, of second order.
  np.testing.assert_allclose(total[0], want, rtol=1.2e-7, atol=1e-12 * size)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_counts_below_are_those_of_loops(seed):
  r = np.random.default_rng(seed)
  x, bound = r.integers(0, 4, (2, 9)).astype(np.float32)
  ids, mask = r.integers(0, 3, 9), r.random(9) < 0.7
  got = jax.jit(segment.count_below)(x, bound, ids, mask)
  want = [np.sum(x[mask & (ids == ids[i])] < bound[i]) for i in range(9)]
  np.testing.assert_array_equal(got, want)
