"""Every loss: its value by hand, its weight, its gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import agentrl.loss  # noqa: F401  registers the losses
from agentrl import registry
from agentrl.signal import critic
from agentrl.types import Batch, Credit, Outputs
from tests import batches

STORY = batches.story(seed=11, groups=2, members=3)
KEY = 0
LOSSES = (
  'entropy', 'kl_k1', 'kl_k2', 'kl_k3', 'nll', 'ppo', 'ppo_dual',
  'reinforce', 'value', 'value_clipped',
)  # fmt: skip


@pytest.fixture(autouse=True)
def _float64():
  with jax.enable_x64(True):
    yield


def _inputs(seed=0):
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


def _loss(name, inputs, **hp):
  return registry.bind('loss', name, hp)(*inputs, jax.random.key(KEY))


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
  outputs, _, credit, signals = inputs = _inputs()
  value, weight, _ = _loss(name, inputs, **hp)
  for at in zip(*np.nonzero(np.asarray(weight)), strict=True):
    out = {
      'logp': outputs.logp[at],
      'entropy': outputs.entropy[at],
      'value': outputs.value[..., 0][at],
    }
    own = {'token': credit.token[at], 'value': credit.target['value'][at]}
    told = {k: signals[k][at] for k in ('old_logp', 'ref_logp', 'value')}
    out, own, told = jax.tree.map(float, (out, own, told))
    want = _by_hand(name, out, own, told, **hp)
    np.testing.assert_allclose(float(value[at]), want, rtol=1e-10)


@pytest.mark.parametrize('name', LOSSES)
def test_weight(name):
  _, batch, credit, _ = inputs = _inputs()
  _, weight, _ = _loss(name, inputs)
  want = np.where(batch.rows.sampled, credit.weight, 0)
  if name.startswith('value'):
    want = credit.target['value.weight']
  if name == 'nll':
    want = credit.weight
  np.testing.assert_array_equal(weight, want)
  assert (np.asarray(weight) > 0).sum() > 5


def _scalar(name, inputs, hp):
  outputs, *rest = inputs

  def f(outputs):
    value, weight, _ = _loss(name, (outputs, *rest), **hp)
    return jnp.sum(value * weight)

  return f, outputs


@pytest.mark.parametrize(('name', 'hp'), CASES)
def test_gradient_is_that_of_finite_differences(name, hp):
  """Random tokens are 1e-6 away from every kink, which is all h needs."""
  f, outputs = _scalar(name, _inputs(seed=4), hp)
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
  f, outputs = _scalar(name, _inputs(), {})
  grads = jax.grad(f)(outputs)
  fields = {'logp': grads.logp, 'entropy': grads.entropy, 'value': grads.value}
  for field, grad in fields.items():
    assert np.asarray(grad).any() == (f'output:{field}' in needs)


@pytest.mark.parametrize('name', sorted({*LOSSES} - {'reinforce'}))
def test_metrics_are_not_differentiated(name):
  outputs, *rest = _inputs()

  def f(outputs):
    _, _, metrics = _loss(name, (outputs, *rest))
    return sum(x + w for x, w in metrics.values())

  grads = jax.grad(f)(outputs)
  assert all(not g.any() for g in jax.tree.leaves(grads))


@pytest.mark.parametrize('name', LOSSES)
def test_only_token_level_arrays_are_read(name):
  """A micro-batch of rows gives those rows of the whole."""
  outputs, batch, credit, signals = _inputs()
  n = batch.rows.tokens.shape[0]
  shape = batch.rows.tokens.shape

  def part(tree):
    return jax.tree.map(lambda x: x[1:2] if x.shape[:2] == shape else x, tree)

  micro: Batch = batch.replace(rows=part(batch.rows), turns=None, outcome=None)
  assert n > 2
  whole = _loss(name, (outputs, batch, credit, signals))
  one = _loss(name, (part(outputs), micro, part(credit), part(signals)))
  for x, y in zip(whole[:2], one[:2], strict=True):
    np.testing.assert_array_equal(x[1:2], y)


def _tokens(logp, a, *, old=0.0, ref=0.0, value=0.0, goal=0.0, v_old=0.0):
  """Inputs of one row of tokens, all sampled and of weight 1."""
  shape = (1, len(logp))
  ones = jnp.ones(shape)
  _, batch, _, _ = _inputs()
  rows = batch.rows.replace(sampled=ones > 0)
  target = {'value': goal * ones, 'value.weight': ones}
  credit = Credit(jnp.zeros((1, 1)), jnp.array([a]), ones, target)
  logp = jnp.array([logp])
  outputs = Outputs(logp, logp, (value * ones)[..., None])
  signals = {'old_logp': old * ones, 'ref_logp': ref * ones}
  signals['value'] = v_old * ones
  return outputs, batch.replace(rows=rows), credit, signals


def _slope(name, inputs, **hp):
  f, outputs = _scalar(name, inputs, hp)
  return jax.grad(f)(outputs)


def test_ppo_stops_where_it_is_clipped():
  """ρ = 1.5 or 0.5: gone too far in the direction of A there is no pull."""
  logp = np.log([1.5, 1.5, 0.5, 0.5])
  a = [1.0, -1.0, 1.0, -1.0]
  inputs = _tokens(logp, a)
  got = _slope('ppo', inputs).logp[0]
  np.testing.assert_allclose(got, [0, 1.5, -0.5, 0], atol=1e-12)
  _, _, metrics = _loss('ppo', inputs)
  told = {k: float(x / w) for k, (x, w) in metrics.items()}
  assert told['ratio'] == pytest.approx(1.0)
  assert told['clip_high'] == told['clip_low'] == 0.25
  kl = np.mean([x - 1 - np.log(x) for x in (1.5, 1.5, 0.5, 0.5)])
  assert told['kl_old'] == pytest.approx(kl)


def test_dual_clip_stops_what_became_likely_and_bad():
  inputs = _tokens(np.log([5.0, 2.0]), [-1.0, -1.0])
  value, _, metrics = _loss('ppo_dual', inputs)
  np.testing.assert_allclose(value, [[3.0, 2.0]])
  np.testing.assert_allclose(_slope('ppo_dual', inputs).logp, [[0, 2.0]])
  assert tuple(map(float, metrics['clip_dual'])) == (1.0, 2.0)


def test_first_step_of_ppo_is_reinforce():
  inputs = _tokens([-1.0, -2.0], [0.7, -0.3])
  inputs[3]['old_logp'] = inputs[0].logp
  np.testing.assert_allclose(
    _slope('ppo', inputs).logp, _slope('reinforce', inputs).logp
  )


@pytest.mark.parametrize('name', ['ppo', 'ppo_dual', 'kl_k3', 'kl_k2'])
def test_far_log_ratios_stay_finite(name):
  """In float32, which ends below e^89, on both sides and for both signs."""
  inputs = _tokens([-800.0, 800.0] * 2, [-1.0, 1.0, 1.0, -1.0])
  inputs = jax.tree.map(
    lambda x: x.astype(jnp.float32) if x.dtype == jnp.float64 else x, inputs
  )
  value, _, metrics = _loss(name, inputs)
  assert value.dtype == np.float32
  slope = _slope(name, inputs).logp
  for x in jax.tree.leaves((value, metrics, slope)):
    assert np.isfinite(np.asarray(x)).all()


def test_kl_estimators_at_a_hand_computed_point():
  inputs = _tokens([-1.0, -4.0], [0.0, 0.0], ref=-2.0)
  want = {
    'kl_k1': [1.0, -2.0],
    'kl_k2': [0.5, 2.0],
    'kl_k3': [np.exp(-1), np.exp(2) - 3],
  }
  for name, expected in want.items():
    value, _, metrics = _loss(name, inputs)
    np.testing.assert_allclose(value[0], expected)
    np.testing.assert_allclose(metrics['kl'], (sum(expected), 2.0))
  value, _, _ = _loss('kl_k3', _tokens([-9.0], [0.0]))
  assert float(value[0, 0]) == 10.0


def test_value_clip_holds_where_it_went_too_far():
  """From 0 to 0.5 towards 1: the clipped error, 0.8²/2, without a slope."""
  inputs = _tokens([0.0], [0.0], value=0.5, goal=1.0)
  value, _, metrics = _loss('value_clipped', inputs)
  np.testing.assert_allclose(value, [[0.32]])
  assert not _slope('value_clipped', inputs).value.any()
  assert tuple(map(float, metrics['clip'])) == (1.0, 1.0)
  np.testing.assert_allclose(metrics['error'], (0.125, 1.0))
  np.testing.assert_allclose(_loss('value', inputs)[0], [[0.125]])


@pytest.mark.parametrize('clip', [0.2, 2.0, np.inf])
def test_what_stays_inside_is_not_counted_as_clipped(clip):
  """In float32, where v_old + (v - v_old) is another number than v."""
  r, shape = np.random.default_rng(0), (1, 4096)
  old, goal = (r.normal(0, x, shape).astype(np.float32) for x in (0.1, 3))
  v = (old + r.uniform(-0.19, 0.19, shape)).astype(np.float32)
  near = old + np.clip(v - old, -clip, clip)
  assert np.mean(np.square(near - goal) > np.square(v - goal)) > 0.003
  zero = np.zeros(shape[1])
  outputs, batch, credit, signals = _tokens(zero, zero)
  outputs = outputs.replace(value=v[..., None])
  credit = credit.replace(target=credit.target | {'value': goal})
  inputs = outputs, batch, credit, signals | {'value': old}
  value, _, metrics = _loss('value_clipped', inputs, clip=np.float32(clip))
  assert value.dtype == np.float32
  assert tuple(map(float, metrics['clip'])) == (0.0, 4096.0)
  np.testing.assert_array_equal(value, np.square(v - goal) / 2)


@pytest.mark.parametrize('value', [0.1, 0.5])
def test_a_loss_and_a_signal_clip_values_alike(value):
  """The value and the share of both, of one token by 0.2."""
  inputs = _tokens([0.0], [0.0], value=value, goal=1.0)
  loss, weight, metrics = _loss('value_clipped', inputs)
  outputs, _, credit, signals = inputs
  error, clip = critic._error(
    outputs.value[..., 0], credit.target['value'], weight, signals['value'], 0.2
  )
  np.testing.assert_array_equal(jnp.sum(weight * loss), error)
  np.testing.assert_array_equal(metrics['clip'], clip)
  assert float(clip[0]) == (value > 0.2)


def test_another_head_of_the_value():
  outputs, *rest = _inputs()
  one = _loss('value', (outputs, *rest), head=1)[0]
  flipped = outputs.replace(value=outputs.value[..., ::-1])
  np.testing.assert_array_equal(one, _loss('value', (flipped, *rest))[0])


def test_on_an_explicit_mesh():
  inputs = _inputs()
  plain = {name: _loss(name, inputs) for name in LOSSES}
  f = lambda x: {name: _loss(name, x) for name in LOSSES}  # noqa: E731
  found = batches.on_a_mesh(f, (inputs,), inputs[0].logp.shape)
  for name in LOSSES:
    jax.tree.map(
      lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-10),
      plain[name], found[name],
    )  # fmt: skip
