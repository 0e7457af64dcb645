"""Random tokens that losses are asked about, and the slope of a loss there."""

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.types import Credit, Outputs
from tests import batches

STORY = batches.story(seed=11, groups=2, members=3)
KEY = 0


def make_inputs(seed=0):
  """Outputs, batch, credit, signals on random tokens; weights 0, 1/2 or 1."""
  laid = jax.tree.map(jnp.asarray, batches.lay(STORY, 'packed', padding=1))
  r = np.random.default_rng(seed)
  rows = laid.batch.rows
  shape = rows.tokens.shape
  sampled = np.asarray(rows.sampled)
  target = {
    'value': jnp.asarray(r.normal(size=shape)),
    'value.weight': jnp.asarray(sampled * r.integers(0, 2, shape) / 1.0),
  }
  credit = Credit(
    turn=jnp.full(laid.batch.turns.valid.shape, jnp.nan),  # not to be read
    token=jnp.asarray(2 * r.normal(size=shape) * sampled),
    weight=jnp.asarray(r.integers(0, 3, shape) / 2.0),
    target=target,
  )
  value = laid.tokens['value'] + 0.3 * r.normal(size=shape)
  outputs = Outputs(
    logp=laid.tokens['logp'],
    entropy=laid.tokens['entropy'],
    value=jnp.stack([value, jnp.asarray(r.normal(size=shape))], -1),
  )
  return outputs, laid.batch, credit, laid.signals


def loss_of(name, inputs, **hp):
  return batches.loss(name, inputs, KEY, **hp)


def weighted_sum(name, inputs, hp):
  outputs, *rest = inputs

  def f(outputs):
    value, weight, _ = loss_of(name, (outputs, *rest), **hp)
    return jnp.sum(value * weight)

  return f, outputs


def make_tokens(logp, a, *, old=0.0, ref=0.0, value=0.0, goal=0.0, v_old=0.0):
  """Inputs of one row of tokens, all sampled and of weight 1."""
  shape = (1, len(logp))
  ones = jnp.ones(shape)
  _, batch, _, _ = make_inputs()
  rows = batch.rows.replace(sampled=ones > 0)
  target = {'value': goal * ones, 'value.weight': ones}
  credit = Credit(jnp.zeros((1, 1)), jnp.array([a]), ones, target)
  logp = jnp.array([logp])
  outputs = Outputs(logp, logp, (value * ones)[..., None])
  signals = {'old_logp': old * ones, 'ref_logp': ref * ones}
  signals['value'] = v_old * ones
  return outputs, batch.replace(rows=rows), credit, signals


def slope_of(name, inputs, **hp):
  f, outputs = weighted_sum(name, inputs, hp)
  return jax.grad(f)(outputs)
