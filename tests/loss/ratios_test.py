"""Losses on ratios of tokens and sequences, against loops over trajectories.

`by_hand` is written with two log-probs of each token: `logp` that moves and
`still` that is behind the stop-gradient. Its finite differences in `logp`
alone are the gradient that each loss must have.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import agentrl.loss  # noqa: F401  registers the losses
from agentrl import registry
from tests import batches
from tests.loss import ratio_inputs

pytestmark = pytest.mark.usefixtures('float64')

COUPLED = ('gmpo', 'gspo', 'gspo_token', 'nft_sequence', 'ppo_suffix')
BY_TURN = ('gspo_turn', 'ipa')
# That of the others is REINFORCE's.
FIRST_STEP = sorted(
  {*ratio_inputs.CASES} - {'nft', 'nft_sequence', 'ppo_suffix'}
)


def _loss(name, inputs):
  return batches.loss(name, inputs, **ratio_inputs.CASES[name])


def _ppo(a, rho, low, high):
  return max(-a * rho, -a * min(max(rho, 1 - low), 1 + high))


def _token(name, hp, x):
  """The value of a token by itself; x: logp, still, old, mu, a."""
  a, rho = x['a'], np.exp(x['logp'] - x['old'])
  if name == 'cispo':
    rho = np.exp(x['still'] - x['old'])
    rho = min(max(rho, 1 - hp['clip_low']), 1 + hp['clip_high'])
    return -rho * a * x['logp']
  if name == 'sapo':
    tau = 1.0 if a > 0 else 1.05
    return -4 / tau / (1 + np.exp(-tau * (rho - 1))) * a
  if name == 'nft':
    r, still = x['r'], np.exp(x['still'] - x['old'])
    if a > 0:
      return -(1 - r) * np.log(rho)
    rest, before = ((1 - r * y) / (1 - r) for y in (rho, still))
    held = rest + max(before, 1) - before
    return -(1 - r) * hp['negative'] * np.log(held)
  p, mu = np.exp(x['still']), np.exp(x['mu'])
  kl = mu * np.log(mu / p) + (1 - mu) * np.log((1 - mu) / (1 - p))
  far = {'dppo_tv': abs(p - mu), 'dppo_kl': kl}[name] > hp['threshold']
  away = p > mu if a > 0 else p < mu
  return 0 if far and away else -min(p / mu, hp['limit']) * a * x['logp']


def _sequence(name, hp, xs):
  """Values of the tokens of one sequence, which may be a single token."""
  if name not in (*COUPLED, *BY_TURN):
    return [_token(name, hp, x) for x in xs]
  if name == 'ppo_suffix':
    return _suffix(hp, xs)
  if name == 'nft_sequence':  # each token as if it were all that happened
    whole = {
      which: sum(x[which] - x['old'] for x in xs) for which in ('logp', 'still')
    }
    return [
      _token('nft', hp, x | {k: x['old'] + gap for k, gap in whole.items()})
      for x in xs
    ]
  if name == 'ipa':
    s = np.exp(np.mean([x['still'] - x['old'] for x in xs]))
    us = [1 if x['a'] > 0 else min(s, 1) for x in xs]
    return [-u * x['a'] * x['logp'] for u, x in zip(us, xs, strict=True)]
  gaps = [x['logp'] - x['old'] for x in xs]
  if name == 'gmpo':
    c = hp['clip']
    gaps = [
      min(g, c) if x['a'] >= 0 else max(g, -c)
      for g, x in zip(gaps, xs, strict=True)
    ]
    return [-x['a'] * np.exp(np.mean(gaps)) for x in xs]
  low, high = hp['clip_low'], hp['clip_high']
  s = np.exp(np.mean(gaps))
  if name == 'gspo_token':
    s = np.exp(np.mean([x['still'] - x['old'] for x in xs]))
    return [
      _ppo(x['a'], s * np.exp(x['logp'] - x['still']), low, high) for x in xs
    ]
  return [_ppo(x['a'], s, low, high) for x in xs]


def _suffix(hp, xs):
  out = []
  for x in xs:
    own = sum(y['logp'] - y['old'] for y in xs if y['k'] == x['k'])
    later = sum(y['still'] - y['old'] for y in xs if y['k'] > x['k'])
    m = x['a'] * np.exp(min(max(later, -hp['far']), hp['far']))
    out.append(_ppo(m, np.exp(own), hp['clip_low'], hp['clip_high']))
  return out


def by_hand(name, logp):
  """[trajectory][turn] of values where there is weight, 0 elsewhere."""
  t, hp, out = ratio_inputs.STORY.token, ratio_inputs.CASES[name], []
  for i, sizes in enumerate(ratio_inputs.STORY.size):
    place = [
      (k, j)
      for k, n in enumerate(sizes)
      for j in range(n)
      if t['value'][i][k][j]
    ]
    xs = [
      {
        'logp': logp[i][k][j],
        'still': t['logp'][i][k][j],
        'old': t['old_logp'][i][k][j],
        'mu': t['entropy'][i][k][j],
        'a': t['prm'][i][k][j],
        'r': t['ref_logp'][i][k][j],
        'k': k,
      }
      for k, j in place
    ]
    out.append([np.zeros(n) for n in sizes])
    if name in BY_TURN:
      units = [
        [n for n, (k, _) in enumerate(place) if k == turn]
        for turn in range(len(sizes))
      ]
    else:
      units = (
        [range(len(xs))] if name in COUPLED else [[n] for n in range(len(xs))]
      )
    for unit in units:
      mine = [xs[n] for n in unit]
      values = _sequence(name, hp, mine) if mine else []
      for n, value in zip(unit, values, strict=True):
        out[i][place[n][0]][place[n][1]] = value
  return out


@pytest.mark.parametrize('layout', batches.BY_DAY)
@pytest.mark.parametrize('name', ratio_inputs.CASES)
def test_value_and_weight_of_every_token(name, layout):
  laid, inputs = ratio_inputs.make_inputs(layout)
  value, weight, _ = _loss(name, inputs)
  got = batches.flat(batches.read(value * weight, ratio_inputs.STORY, laid))
  want = batches.flat(by_hand(name, ratio_inputs.STORY.token['logp']))
  np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)
  weight = batches.flat(batches.read(weight, ratio_inputs.STORY, laid))
  np.testing.assert_array_equal(
    weight, batches.flat(ratio_inputs.STORY.token['value'])
  )


@pytest.mark.parametrize('name', ratio_inputs.CASES)
def test_gradient_with_its_stop_gradients(name):
  laid, (outputs, *rest) = ratio_inputs.make_inputs()
  r = np.random.default_rng(0)
  coef = [
    [r.normal(size=n) for n in sizes] for sizes in ratio_inputs.STORY.size
  ]
  at = np.zeros(outputs.logp.shape)
  rows = laid.batch.rows
  for i, turns in enumerate(coef):
    for k, c in enumerate(turns):
      at[rows.sampled & (rows.traj == i) & (rows.turn == k)] = c

  def total(outputs):
    value, weight, _ = _loss(name, (outputs, *rest))
    return jnp.sum(value * weight * at)

  grads = batches.read(jax.grad(total)(outputs).logp, ratio_inputs.STORY, laid)
  size = 0.0
  for _ in range(3):
    way = [
      [r.normal(size=n) for n in sizes] for sizes in ratio_inputs.STORY.size
    ]
    pairs = list(zip(ratio_inputs.STORY.token['logp'], way, strict=True))
    sides = []
    for h in (1e-6, -1e-6):
      moved = [
        [x + h * d for x, d in zip(*pair, strict=True)] for pair in pairs
      ]
      values = batches.flat(by_hand(name, moved))
      sides.append(np.sum(values * batches.flat(coef)))
    want = (sides[0] - sides[1]) / 2e-6
    size += abs(want)
    got = np.sum(batches.flat(grads) * batches.flat(way))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-8)
  assert size > 0.1


@pytest.mark.parametrize('name', ratio_inputs.CASES)
def test_rows_are_coupled_where_it_says_so(name):
  """Rows of second turns move the values of other turns, or do not."""
  _, (outputs, *rest) = ratio_inputs.make_inputs('turn')
  second = jnp.any(rest[0].rows.turn == 1, axis=1, keepdims=True)
  moved = jnp.where(second, 1.1 * outputs.logp, outputs.logp)
  values = [
    _loss(name, (x, *rest))[0] for x in (outputs, outputs.replace(logp=moved))
  ]
  same = bool(jnp.all(second | (values[0] == values[1])))
  assert same != (name in COUPLED)
  assert registry.get('loss', name).couples == (name in COUPLED)


@pytest.mark.parametrize('name', FIRST_STEP)
def test_first_step_is_reinforce(name):
  """ρ = 1: log-probs of the learner, of its past and of the sampler agree."""
  _, (outputs, batch, credit, signals) = ratio_inputs.make_constant_inputs()
  rows = batch.rows
  same = jnp.where(rows.sampled, outputs.logp, 0)
  batch = batch.replace(rows=rows.replace(logp=same))
  inputs = (outputs, batch, credit, {**signals, 'old_logp': outputs.logp})
  want = ratio_inputs.slope_of('reinforce', inputs)
  np.testing.assert_allclose(
    ratio_inputs.slope_of(name, inputs), want, atol=1e-12
  )
  assert np.abs(want).max() > 0.1


@pytest.mark.slow
def test_a_ratio_to_the_past_does_not_read_what_the_sampler_computed():
  """Of all losses with the learner's own log-probs: they, and no others."""
  _, (outputs, batch, credit, signals) = ratio_inputs.make_inputs()
  credit = credit.replace(target=credit.target | {'rate': credit.weight / 2})
  agreement = {'agreement': 0.5 * batch.turns.valid}
  turns = batch.turns.replace(terms=batch.turns.terms | agreement)
  batch, rows = batch.replace(turns=turns), batch.rows
  moved = batch.replace(rows=rows.replace(logp=1.5 * rows.logp - 0.2))
  later = {**signals, 'old_logp': signals['old_logp'] - 0.2}
  names = [
    name
    for name in registry.names('loss')
    if 'signal:old_logp' in registry.get('loss', name).needs
  ]
  assert {'ppo', 'gspo', 'cispo', 'clip_cov', 'ppo_future'} <= {*names}
  for name in names:
    value, other, far = (
      np.asarray(batches.loss(name, (outputs, x, credit, y))[0])
      for x, y in ((batch, signals), (moved, signals), (batch, later))
    )
    np.testing.assert_array_equal(value, other, err_msg=name)
    assert (value != far).any(), name


@pytest.mark.parametrize('name', ratio_inputs.CASES)
def test_far_log_probs_stay_finite(name):
  _, (outputs, *rest) = ratio_inputs.make_inputs()
  for far in (-800.0, 0.0):
    inputs = (outputs.replace(logp=jnp.full_like(outputs.logp, far)), *rest)
    assert np.isfinite(np.asarray(_loss(name, inputs)[0])).all()
    assert np.isfinite(ratio_inputs.slope_of(name, inputs)).all()


def test_on_an_explicit_mesh():
  _, inputs = ratio_inputs.make_inputs()

  def slopes(inputs):
    outputs, *rest = inputs

    def total(outputs):
      terms = (_loss(name, (outputs, *rest)) for name in ratio_inputs.CASES)
      return sum(jnp.sum(value * weight) for value, weight, _ in terms)

    return jax.grad(total)(outputs).logp

  plain = slopes(inputs)
  sharded = batches.on_a_mesh(slopes, (inputs,), inputs[0].logp.shape)
  np.testing.assert_allclose(plain, sharded, rtol=1e-9, atol=1e-12)
