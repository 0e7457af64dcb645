"""The implicit PRM: golden numbers, a zero start, a gradient that flows."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import ops, optimizer, registry, segment
from agentrl.learner import update
from agentrl.model import policy
from agentrl.nn import transformer
from agentrl.signal import preference
from agentrl.signal.base import Context
from agentrl.signal.implicit_prm import implicit_prm, restarted_prm
from agentrl.types import Batch, Rows, Turns
from tests import errors

SHAPE = transformer.DecoderConfig(
  vocab=20, width=16, layers=1, heads=2, kv_heads=2, head_dim=8, mlp=16
)
MODULE = policy.module(SHAPE)
B, K, T = 6, 3, 8


def make_batch(seed=0, pad_rows=0, order=None) -> Batch:
  """Per-turn rows of ragged trajectories in two groups."""
  rng = np.random.default_rng(seed)
  turns = np.array([3, 1, 2, 3, 2, 1])
  rows = []
  for b in range(B):
    for k in range(turns[b]):
      prompt, said = rng.integers(2, 5), rng.integers(1, 4)
      tokens = rng.integers(1, 20, prompt + said)
      rows.append((b, k, prompt, tokens))
  n = 16 + pad_rows
  z = lambda dtype, fill=0: np.full((n, T), fill, dtype)  # noqa: E731
  r = {
    'tokens': z(np.int32),
    'seg': z(np.int32, -1),
    'traj': z(np.int32, -1),
    'turn': z(np.int32, -1),
    'span': z(np.int8),
    'sampled': z(bool),
    'weight': z(np.float32),
    'logp': z(np.float32),
    'version': z(np.int32),
  }
  place = np.arange(len(rows)) if order is None else order
  for at, (b, k, prompt, tokens) in zip(place, rows, strict=True):
    size = len(tokens)
    r['tokens'][at, :size] = tokens
    r['seg'][at, :size] = 0
    r['traj'][at, :size] = b
    r['turn'][at, prompt:size] = k
    r['sampled'][at, prompt:size] = True
    r['weight'][at, prompt:size] = 1
  valid = np.arange(K)[None] < turns[:, None]
  zero = np.zeros((B, K), np.int32)
  ids = {n: np.zeros(B, np.int32) for n in ('task', 'arm', 'source')}
  return jax.tree.map(
    jnp.asarray,
    Batch(
      rows=Rows(**r),
      turns=Turns(
        reward=np.zeros((B, K), np.float32),
        terms={'progress': rng.normal(size=(B, K)).astype(np.float32)},
        scored=valid,
        valid=valid,
        state=zero,
        node=zero,
        agent=zero,
      ),
      ids={**ids, 'group': np.array([0, 0, 0, 1, 1, 1], np.int32)},
      outcome=np.array([1, 0, 0, 1, 1, 0], np.float32),
      status=np.zeros(B, np.int32),
    ),
  )


def context(lr=1e-2):
  return Context(
    modules={'policy': MODULE, 'prm': MODULE},
    rules={
      'policy': optimizer.OptimizerConfig(),
      'prm': optimizer.OptimizerConfig(lr=lr, max_grad_norm=10.0),
    },
    micro=4,
  )


def start(c=None):
  c = c or context()
  return update.init(
    update.Algorithm.from_spec(spec=registry.MethodSpec(), context=c),
    jax.random.key(0),
  )


@jax.jit
def old_logp(state, batch):
  return MODULE.apply(state.params['policy'], batch.rows, ('logp',)).logp


@functools.cache
def parts():
  batch, state = make_batch(), start()
  state = update.init_roles_from_policy(
    update.Algorithm.from_spec(spec=registry.MethodSpec(), context=context()),
    state,
  )
  return batch, state, {'old_logp': old_logp(state, batch)}


@functools.cache
def compiled(make=implicit_prm, lr=1e-2):
  signal = make(context(lr))
  return signal._replace(
    score=jax.jit(signal.score), update=jax.jit(signal.update)
  )


def test_pair_loss_has_the_golden_numbers():
  steps = jnp.array([[0.2, 0.4, 0.0], [-0.1, 0.1, -0.6]])
  valid = jnp.array([[True, True, False], [True, True, True]])
  pairs = jnp.array([[0.0, 1.0], [0.0, 0.0]])
  q = preference.trajectory_score(steps, valid, 'sum')
  assert ops.pair_loss(q, pairs) == pytest.approx(0.263282, abs=1e-6)
  q = preference.trajectory_score(steps, valid, 'mean')
  assert ops.pair_loss(q, pairs) == pytest.approx(0.474077, abs=1e-6)


def test_rewards_are_exactly_zero_at_the_start():
  batch, state, signals = parts()
  signal = compiled()
  exact = {
    'old_logp': signal.score(state, batch, signals)[0]['implicit_prm.logp']
  }
  fields, metrics = signal.score(state, batch, exact)
  assert not np.any(fields['implicit_prm.step'])
  assert not np.any(fields['implicit_prm.token'])
  assert float(metrics['prm/kl'][0]) == 0


def test_the_gradient_reaches_the_prm_as_soon_as_a_pair_exists():
  batch, state, signals = parts()
  signal = compiled()
  new, metrics = signal.update(state, batch, signals, None)
  assert float(metrics['prm/grad_norm'][0]) > 1e-3
  assert float(metrics['prm/pairs'][0]) == 2 + 2
  moved = jax.tree.map(
    lambda a, b: float(jnp.max(jnp.abs(a - b))),
    new.params['prm'],
    state.params['prm'],
  )
  assert max(jax.tree.leaves(moved)) > 1e-4
  alone = batch.replace(outcome=jnp.ones(B))
  _, metrics = signal.update(state, alone, signals, None)
  assert float(metrics['prm/grad_norm'][0]) == 0
  assert float(metrics['prm/pairs'][0]) == 0


def test_learning_the_pairs_raises_their_accuracy():
  batch, state, signals = parts()
  signal = compiled()
  for _ in range(30):
    state, metrics = signal.update(state, batch, signals, None)
  assert float(metrics['prm/loss'][0]) < 0.5
  right, pairs = metrics['prm/pair_accuracy']
  assert right == pairs == 4


@functools.cache
def moved_prm():
  batch, state, signals = parts()
  signal = compiled()
  for _ in range(3):
    state, _ = signal.update(state, batch, signals, None)
  return state, signal


def test_step_rewards_are_a_float64_recomputation():
  batch, _, signals = parts()
  state, signal = moved_prm()
  fields, _ = signal.score(state, batch, signals)
  logits, forward = {}, jax.jit(transformer.forward, static_argnums=0)
  for role in ('prm', 'policy'):
    hidden = forward(
      SHAPE, state.params[role], batch.rows.tokens, batch.rows.seg
    )
    w = np.asarray(state.params[role]['embed'], np.float64)
    logits[role] = np.asarray(hidden, np.float64) @ w.T
  want = np.zeros((B, K))
  r = jax.device_get(batch.rows)
  for n, t in zip(*np.nonzero(r.sampled), strict=True):
    token = r.tokens[n, t]
    logp = {
      role: x[n, t - 1, token] - np.logaddexp.reduce(x[n, t - 1])
      for role, x in logits.items()
    }
    want[r.traj[n, t], r.turn[n, t]] += 0.05 * (logp['prm'] - logp['policy'])
  np.testing.assert_allclose(fields['implicit_prm.step'], want, atol=2e-6)
  token = fields['implicit_prm.token']
  summed = segment.index(batch).to_turns(token)
  np.testing.assert_allclose(fields['implicit_prm.step'], summed, atol=1e-7)


@pytest.mark.parametrize(
  'how', [pytest.param('padding', marks=pytest.mark.nightly), 'order']
)
def test_padding_and_order_of_rows_do_not_matter(how):
  state, signal = moved_prm()
  # Empty rows among the others, not only behind them.
  order = np.random.default_rng(3).permutation(16)[:12]
  other = (
    make_batch(pad_rows=8) if how == 'padding' else make_batch(order=order)
  )
  results = []
  for batch in (make_batch(), other):
    signals = {'old_logp': old_logp(state, batch)}
    fields, _ = signal.score(state, batch, signals)
    new, metrics = signal.update(state, batch, signals, None)
    results.append(
      (
        fields['implicit_prm.step'],
        metrics['prm/loss'][0],
        metrics['prm/grad_norm'][0],
      )
    )
    del new
  for x, y in zip(*results, strict=True):
    np.testing.assert_allclose(x, y, atol=1e-6, rtol=1e-5)


def test_pairs_are_of_one_group_and_padding_makes_none():
  batch = make_batch()
  pairs = np.asarray(preference.pair_weights(batch))
  assert np.argwhere(pairs).tolist() == [[0, 1], [0, 2], [3, 5], [4, 5]]
  one = np.asarray(preference.pair_weights(batch, 'one_to_one'))
  assert np.argwhere(one).tolist() == [[0, 1], [3, 5]]
  timed = np.asarray(preference.pair_weights(batch, 'by_time'))
  assert np.argwhere(timed - pairs).tolist() == [[4, 3]]  # of 2 and 3 turns
  empty = batch.turns.valid.at[2].set(False)
  fewer = batch.replace(turns=batch.turns.replace(valid=empty))
  assert np.argwhere(preference.pair_weights(fewer)).tolist() == [
    [0, 1],
    [3, 5],
    [4, 5],
  ]


def test_cross_entropy_is_the_mean_over_trajectories():
  batch = make_batch()
  q = jnp.linspace(-1, 1, B)
  p = 1 / (1 + np.exp(-np.asarray(q)))
  y = np.asarray(batch.outcome)
  want = -np.mean(y * np.log(p) + (1 - y) * np.log(1 - p))
  assert preference.cross_entropy(q, batch) == pytest.approx(want, rel=1e-5)


def test_restarting_forgets_and_zero_rate_gives_no_reward():
  batch, _, signals = parts()
  state, _ = moved_prm()
  signal = compiled(restarted_prm, lr=0.0)
  assert any(np.any(x) for x in jax.tree.leaves(state.opt['prm']))
  state = signal.begin(state)
  assert not any(np.any(x) for x in jax.tree.leaves(state.opt['prm']))
  for a, b in zip(
    jax.tree.leaves(state.params['prm']),
    jax.tree.leaves(state.params['policy']),
    strict=True,
  ):
    np.testing.assert_array_equal(a, b)
  state, _ = signal.update(state, batch, signals, None)
  fields, _ = signal.score(state, batch, signals)
  np.testing.assert_allclose(fields['implicit_prm.step'], 0, atol=1e-7)


@pytest.mark.parametrize(
  ('field', 'value'),
  [('loss', 'dpo'), ('pairing', 'some'), ('trajectory', 'max')],
)
def test_unknown_choices_name_the_others(field, value):
  with errors.raises(ValueError, f'{field} {value}'):
    implicit_prm(context(), **{field: value})
