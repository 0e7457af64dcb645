"""Every loss: its value by hand, its weight, its gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import agentrl.loss  # noqa: F401  registers the losses
from agentrl import registry
from agentrl.types import Batch
from tests import batches
from tests.loss import token_inputs

pytestmark = pytest.mark.usefixtures('float64')

LOSSES = (
  'entropy',
  'kl_k1',
  'kl_k2',
  'kl_k3',
  'nll',
  'ppo',
  'ppo_dual',
  'reinforce',
  'value',
  'value_clipped',
)


def _by_hand(name, out, credit, signals, **hp):
  """The value of one token from the equations; scalars."""
  low, high = hp.get('clip_low', 0.2), hp.get('clip_high', 0.2)
  a, logp = credit['token'], out['logp']
  rho = np.exp(logp - signals['old_logp'])
  d = signals['ref_logp'] - logp
  clipped = max(-a * rho, -a * min(max(rho, 1 - low), 1 + high))
  v, goal, old = out['value'], credit['value'], signals['value']
  near = min(max(v, old - 0.2), old + 0.2)
  return {
    'ppo': clipped,
    'ppo_dual': min(clipped, -hp.get('dual', 3.0) * a) if a < 0 else clipped,
    'reinforce': -a * logp,
    'kl_k1': -d,
    'kl_k2': d * d / 2,
    'kl_k3': min(np.exp(d) - d - 1, 10),
    'entropy': -out['entropy'],
    'nll': -logp,
    'value': 0.5 * (v - goal) ** 2,
    'value_clipped': 0.5 * max((v - goal) ** 2, (near - goal) ** 2),
  }[name]


CASES = [(name, {}) for name in LOSSES] + [
  ('ppo', {'clip_low': 0.1, 'clip_high': 0.4}),
  ('ppo_dual', {'clip_low': 0.1, 'clip_high': 0.05, 'dual': 1.2}),
]


@pytest.mark.parametrize(('name', 'hp'), CASES)
def test_value_of_every_token(name, hp):
  outputs, _, credit, signals = inputs = token_inputs.make_inputs()
  value, weight, _ = token_inputs.loss_of(name, inputs, **hp)
  for at in zip(*np.nonzero(np.asarray(weight)), strict=True):
    out = {
      'logp': outputs.logp[at],
      'entropy': outputs.entropy[at],
      'value': outputs.value[..., 0][at],
    }
    own = {'token': credit.token[at], 'value': credit.target['value'][at]}
    token_signals = {
      k: signals[k][at] for k in ('old_logp', 'ref_logp', 'value')
    }
    out, own, token_signals = jax.tree.map(float, (out, own, token_signals))
    want = _by_hand(name, out, own, token_signals, **hp)
    np.testing.assert_allclose(float(value[at]), want, rtol=1e-10)


@pytest.mark.parametrize('name', LOSSES)
def test_weight(name):
  _, batch, credit, _ = inputs = token_inputs.make_inputs()
  _, weight, _ = token_inputs.loss_of(name, inputs)
  want = np.where(batch.rows.sampled, credit.weight, 0)
  if name.startswith('value'):
    want = credit.target['value.weight']
  if name == 'nll':
    want = credit.weight
  np.testing.assert_array_equal(weight, want)
  assert (np.asarray(weight) > 0).sum() > 5


@pytest.mark.parametrize(('name', 'hp'), CASES)
def test_gradient_is_that_of_finite_differences(name, hp):
  """Random tokens are 1e-6 away from every kink, which is all h needs."""
  f, outputs = token_inputs.weighted_sum(
    name, token_inputs.make_inputs(seed=4), hp
  )
  grads = jax.jit(jax.grad(f))(outputs)
  f = jax.jit(f)
  r = np.random.default_rng(0)
  size = 0.0
  for _ in range(4):
    way = jax.tree.map(lambda x: jnp.asarray(r.normal(size=x.shape)), outputs)
    h = 1e-6
    there = f(jax.tree.map(lambda x, y: x + h * y, outputs, way))
    back = f(jax.tree.map(lambda x, y: x - h * y, outputs, way))
    terms = jax.tree.map(lambda x, y: jnp.sum(x * y), grads, way)
    want = float(there - back) / (2 * h)
    size += abs(want)
    np.testing.assert_allclose(sum(jax.tree.leaves(terms)), want, rtol=1e-6)
  assert size > 0.1


@pytest.mark.parametrize('name', LOSSES)
def test_only_the_outputs_it_declares_are_moved(name):
  needs = registry.get('loss', name).needs
  f, outputs = token_inputs.weighted_sum(name, token_inputs.make_inputs(), {})
  grads = jax.grad(f)(outputs)
  fields = {'logp': grads.logp, 'entropy': grads.entropy, 'value': grads.value}
  for field, grad in fields.items():
    assert np.asarray(grad).any() == (f'output:{field}' in needs)


@pytest.mark.parametrize('name', sorted({*LOSSES} - {'reinforce'}))
def test_metrics_are_not_differentiated(name):
  outputs, *rest = token_inputs.make_inputs()

  def f(outputs):
    _, _, metrics = token_inputs.loss_of(name, (outputs, *rest))
    return sum(x + w for x, w in metrics.values())

  grads = jax.grad(f)(outputs)
  assert all(not g.any() for g in jax.tree.leaves(grads))


@pytest.mark.parametrize('name', LOSSES)
def test_only_token_level_arrays_are_read(name):
  """A micro-batch of rows gives those rows of the whole."""
  outputs, batch, credit, signals = token_inputs.make_inputs()
  n = batch.rows.tokens.shape[0]
  shape = batch.rows.tokens.shape

  def part(tree):
    return jax.tree.map(lambda x: x[1:2] if x.shape[:2] == shape else x, tree)

  micro: Batch = batch.replace(rows=part(batch.rows), turns=None, outcome=None)
  assert n > 2
  whole = token_inputs.loss_of(name, (outputs, batch, credit, signals))
  one = token_inputs.loss_of(
    name, (part(outputs), micro, part(credit), part(signals))
  )
  for x, y in zip(whole[:2], one[:2], strict=True):
    np.testing.assert_array_equal(x[1:2], y)


@pytest.mark.parametrize('name', ['ppo', 'ppo_dual', 'kl_k3', 'kl_k2'])
def test_far_log_ratios_stay_finite(name):
  """In float32, which ends below e^89, on both sides and for both signs."""
  inputs = token_inputs.make_tokens([-800.0, 800.0] * 2, [-1.0, 1.0, 1.0, -1.0])
  inputs = jax.tree.map(
    lambda x: x.astype(jnp.float32) if x.dtype == jnp.float64 else x, inputs
  )
  value, _, metrics = token_inputs.loss_of(name, inputs)
  assert value.dtype == np.float32
  slope = token_inputs.slope_of(name, inputs).logp
  for x in jax.tree.leaves((value, metrics, slope)):
    assert np.isfinite(np.asarray(x)).all()


def test_on_an_explicit_mesh():
  inputs = token_inputs.make_inputs()
  plain = {name: token_inputs.loss_of(name, inputs) for name in LOSSES}
  f = lambda x: {name: token_inputs.loss_of(name, x) for name in LOSSES}  # noqa: E731
  sharded = batches.on_a_mesh(f, (inputs,), inputs[0].logp.shape)
  for name in LOSSES:
    jax.tree.map(
      lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-10),
      plain[name],
      sharded[name],
    )
