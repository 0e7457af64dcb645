"""Tokens of a made-up story, near and far from what was sampled."""

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.types import Credit, Outputs
from tests import batches

CASES = {
  'cispo': {'clip_low': 0.2, 'clip_high': 0.1},
  'dppo_kl': {'threshold': 0.02, 'limit': 1.3},
  'dppo_tv': {'threshold': 0.05, 'limit': 1.3},
  'gmpo': {'clip': 0.2},
  'gspo': {'clip_low': 0.05, 'clip_high': 0.06},
  'gspo_token': {'clip_low': 0.05, 'clip_high': 0.06},
  'gspo_turn': {'clip_low': 0.1, 'clip_high': 0.12},
  'ipa': {},
  'nft': {'negative': 0.7},
  'nft_sequence': {'negative': 0.7},
  'ppo_suffix': {'clip_low': 0.2, 'clip_high': 0.25, 'far': 0.8},
  'sapo': {},
}


def make_story():
  """Log-probs below 0; token['entropy'] is the behaviour's log-prob."""
  s = batches.story(seed=3, groups=2, members=3)
  r = np.random.default_rng(1)
  for i, sizes in enumerate(s.size):
    for k, n in enumerate(sizes):
      logp = -np.abs(s.token['logp'][i][k]) - 0.1
      near = np.minimum(logp + 0.3 * r.normal(size=(2, n)), -0.01)
      s.token['logp'][i][k] = logp
      s.token['old_logp'][i][k], s.token['entropy'][i][k] = near
      s.token['prm'][i][k] = r.normal(size=n)  # advantage
      s.token['value'][i][k] = np.arange(n) % 3 != 1  # weight
      s.token['ref_logp'][i][k] = r.uniform(0.1, 0.9, n)  # rate
  s.token['value'][2] = [0 * w for w in s.token['value'][2]]
  return s


STORY = make_story()


def make_inputs(layout='packed'):
  laid = jax.tree.map(jnp.asarray, batches.lay(STORY, layout, padding=1))
  sampled = laid.batch.rows.sampled
  rows = laid.batch.rows.replace(
    logp=jnp.where(sampled, laid.tokens['entropy'], 0)
  )
  credit = Credit(
    turn=jnp.full(laid.batch.turns.valid.shape, jnp.nan),  # not to be read
    token=jnp.where(sampled, laid.tokens['prm'], 0),
    weight=jnp.where(sampled, laid.tokens['value'], 1.0),
    target={'rate': jnp.where(sampled, laid.tokens['ref_logp'], 0.5)},
  )
  outputs = Outputs(logp=laid.tokens['logp'])
  return laid, (outputs, laid.batch.replace(rows=rows), credit, laid.signals)


def make_constant_inputs():
  """Every token of a trajectory has its advantage and weight 1; ρ as is."""
  laid, (outputs, batch, credit, signals) = make_inputs('history')
  of = jnp.arange(7.0) - 3.2
  token = jnp.where(batch.rows.sampled, of[jnp.maximum(batch.rows.traj, 0)], 0)
  weight = batch.rows.sampled.astype(jnp.float64)
  return laid, (
    outputs,
    batch,
    credit.replace(token=token, weight=weight),
    signals,
  )


def slope_of(name, inputs, **hp):
  outputs, *rest = inputs

  def total(outputs):
    value, weight, _ = batches.loss(name, (outputs, *rest), **hp)
    return jnp.sum(value * weight)

  return np.asarray(jax.grad(total)(outputs).logp)
