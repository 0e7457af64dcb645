"""Losses that imitate: stored answers, NFT of tokens and of sequences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import registry
from agentrl.advantage import chain
from agentrl.configs import nft_sequence
from agentrl.types import Outputs
from tests import batches
from tests.loss import ratio_inputs

pytestmark = pytest.mark.usefixtures('float64')


def _case(seed=0, size=0.5):
  """A batch, log-probs near its own, and advantages of sampled tokens."""
  laid = batches.lay(batches.story(seed, groups=3, members=3), 'history')
  batch = jax.tree.map(jnp.asarray, laid.batch)
  r = np.random.default_rng(seed)
  logp = batch.rows.logp + size * r.normal(size=batch.rows.logp.shape)
  a = np.where(batch.rows.sampled, r.normal(size=logp.shape), 0)
  return batch, logp, a


def _loss(name, batch, logp, a, **hp):
  credit = chain.zero(batch).replace(token=jnp.asarray(a))
  return batches.loss(name, (Outputs(logp=logp), batch, credit, {}), **hp)


def test_imitation_is_ppo_on_stored_log_probs_where_it_was_good():
  batch, logp, a = _case()

  def total(logp):
    value, weight, _ = _loss('imitate', batch, logp, a, clip_high=0.3)
    return jnp.sum(value * weight), (value, weight)

  grad, (value, weight) = jax.grad(total, has_aux=True)(logp)
  np.testing.assert_array_equal(
    weight, np.asarray(batch.rows.sampled) * (a > 0)
  )
  count = 0
  for at in zip(*np.nonzero(np.asarray(weight)), strict=True):
    rho = np.exp(float(logp[at]) - float(batch.rows.logp[at]))
    want = -a[at] * min(rho, 1.3)
    np.testing.assert_allclose(float(value[at]), want, rtol=1e-10)
    slope = -a[at] * rho if rho < 1.3 else 0
    np.testing.assert_allclose(float(grad[at]), slope, rtol=1e-10)
    count += rho > 1.3
  assert count
  assert not np.asarray(grad)[np.asarray(weight) == 0].any()


def test_stored_ppo_clips_either_side_and_whatever_the_sign():
  batch, logp, a = _case(2)
  value, weight, _ = _loss('ppo_stored', batch, logp, a, clip_high=0.3)
  np.testing.assert_array_equal(weight, batch.rows.weight)
  assert weight.any()
  for at in zip(*np.nonzero(np.asarray(weight)), strict=True):
    rho = np.exp(float(logp[at]) - float(batch.rows.logp[at]))
    want = max(-a[at] * rho, -a[at] * min(max(rho, 0.8), 1.3))
    np.testing.assert_allclose(float(value[at]), want, rtol=1e-10)


def test_imitation_spares_a_few_tokens_of_large_covariance():
  batch, logp, a = _case(size=2.0)
  plain, weight, _ = _loss('imitate', batch, logp, a)
  hp = dict(fraction=0.2, least=0.2, most=0.6)
  value, same, told = _loss('imitate_clip_cov', batch, logp, a, **hp)
  np.testing.assert_array_equal(weight, same)
  used = np.asarray(weight) > 0
  cov = (a - a[used].mean()) * (logp - np.asarray(logp)[used].mean())
  near = used & (np.asarray(cov) > 0.2) & (np.asarray(cov) < 0.6)
  gone = np.asarray(value != plain)
  count = int(0.2 * used.sum())
  assert 1 <= count < near.sum() < used.sum()
  assert gone.sum() == count
  assert not (gone & ~near).any()
  assert not np.asarray(value)[gone].any()
  assert told['spared'] == (count, used.sum())


def test_first_step_of_nft_is_that_of_grpo():
  """w = √((1 − r)/r): A of a z-scored 0/1 outcome, r its mean."""
  _, (outputs, batch, credit, signals) = ratio_inputs.make_constant_inputs()
  rate = credit.target['rate']
  good, bad = jnp.sqrt((1 - rate) / rate), -jnp.sqrt(rate / (1 - rate))
  z = jnp.where(credit.token > 0, good, bad)
  near = {**signals, 'old_logp': outputs.logp}
  credit = credit.replace(token=jnp.where(batch.rows.sampled, z, 0))
  inputs = (outputs, batch, credit, near)
  np.testing.assert_allclose(
    ratio_inputs.slope_of('nft', inputs, weigh='deviation'),
    ratio_inputs.slope_of('ppo', inputs),
    atol=1e-12,
  )


def _two_tokens(logp, a, rate):
  """One trajectory of two tokens, old log-probs 0, all of weight 1."""
  _, (_, batch, credit, signals) = ratio_inputs.make_inputs()
  where = jnp.zeros((1, 2), jnp.int32)
  rows = batch.rows.replace(traj=where, turn=where, sampled=where == 0)
  ones = jnp.ones((1, 2))
  credit = credit.replace(
    token=a * ones, weight=ones, target={'rate': rate * ones}
  )
  signals = {**signals, 'old_logp': 0 * ones}
  return (
    Outputs(logp=jnp.array([logp])),
    batch.replace(rows=rows),
    credit,
    signals,
  )


def test_golden_nft_of_tokens_and_of_a_sequence():
  """r = 1/4, rho = 2 and 1/2, whose product is 1; then 1/2 and 1/2, so 1/4.

  Failed: ((1 - rho / 4) / (3/4), at least 1) = 1, 7/6; 1; 7/6, 7/6; 5/4.
  """
  log2 = np.log(2)
  for logp, a, token, sequence in (
    ([log2, -log2], 1.0, [-log2, log2], [0, 0]),
    ([log2, -log2], -1.0, [0, -np.log(7 / 6)], [0, 0]),
    ([-log2, -log2], 1.0, [log2, log2], [2 * log2] * 2),
    ([-log2, -log2], -1.0, [-np.log(7 / 6)] * 2, [-np.log(5 / 4)] * 2),
  ):
    inputs = _two_tokens(logp, a, 0.25)
    for name, want in (('nft', token), ('nft_sequence', sequence)):
      value, weight, _ = batches.loss(name, inputs)
      np.testing.assert_allclose(value[0], 0.75 * np.array(want), atol=1e-15)
      np.testing.assert_array_equal(weight, [[1, 1]])


def test_nft_lets_go_of_what_is_e_to_the_10_times_as_likely():
  """As the released code, whose ratio ends there, in both modes."""
  inputs = _two_tokens([12.0, 0.0], 1.0, 0.25)
  for name in ('nft', 'nft_sequence'):
    value, _, _ = batches.loss(name, inputs)
    assert float(value[0, 0]) == -7.5
    assert ratio_inputs.slope_of(name, inputs)[0, 0] == 0


def test_a_sequence_of_nft_counts_once_whatever_its_length():
  """By the reducer of its config, the loss is that of the trajectories."""
  c = nft_sequence.get_config()
  laid, (outputs, batch, credit, signals) = ratio_inputs.make_constant_inputs()
  rate = jnp.full(credit.token.shape, 0.3)
  credit = credit.replace(target={'rate': rate})
  inputs = outputs, batch, credit, signals
  value, weight, _ = batches.loss('nft_sequence', inputs)
  reduce = registry.bind(
    'loss_aggregation', c.loss_aggregation.nft_sequence, {}
  )
  coef = reduce(weight, batch.rows, *batch.turns.valid.shape)
  by_traj = [
    float(x[0][0]) for x in batches.read(value, ratio_inputs.STORY, laid)
  ]
  got = float(jnp.sum(coef * value))
  np.testing.assert_allclose(got, np.mean(by_traj), rtol=1e-12)
