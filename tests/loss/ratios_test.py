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
from agentrl.configs import nft_sequence
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
COUPLED = ('gmpo', 'gspo', 'gspo_token', 'nft_sequence', 'ppo_suffix')
BY_TURN = ('gspo_turn', 'ipa')
# That of the others is REINFORCE's.
FIRST_STEP = sorted({*CASES} - {'nft', 'nft_sequence', 'ppo_suffix'})


@pytest.fixture(autouse=True)
def _float64():
  with jax.enable_x64(True):
    yield


def _story():
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


STORY = _story()


def _inputs(layout='packed'):
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


def _loss(name, inputs):
  f = registry.bind('loss', name, CASES[name])
  return f(*inputs, jax.random.key(0))


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
    whole = {which: sum(x[which] - x['old'] for x in xs)
             for which in ('logp', 'still')}  # fmt: skip
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
    gaps = [min(g, c) if x['a'] >= 0 else max(g, -c)
            for g, x in zip(gaps, xs, strict=True)]  # fmt: skip
    return [-x['a'] * np.exp(np.mean(gaps)) for x in xs]
  low, high = hp['clip_low'], hp['clip_high']
  s = np.exp(np.mean(gaps))
  if name == 'gspo_token':
    s = np.exp(np.mean([x['still'] - x['old'] for x in xs]))
    return [_ppo(x['a'], s * np.exp(x['logp'] - x['still']), low, high)
            for x in xs]  # fmt: skip
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
  t, hp, out = STORY.token, CASES[name], []
  for i, sizes in enumerate(STORY.size):
    place = [(k, j) for k, n in enumerate(sizes) for j in range(n)
             if t['value'][i][k][j]]  # fmt: skip
    xs = [
      {'logp': logp[i][k][j], 'still': t['logp'][i][k][j],
       'old': t['old_logp'][i][k][j], 'mu': t['entropy'][i][k][j],
       'a': t['prm'][i][k][j], 'r': t['ref_logp'][i][k][j], 'k': k}
      for k, j in place
    ]  # fmt: skip
    out.append([np.zeros(n) for n in sizes])
    if name in BY_TURN:
      units = [[n for n, (k, _) in enumerate(place) if k == turn]
               for turn in range(len(sizes))]  # fmt: skip
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


@pytest.mark.parametrize('layout', batches.LAYOUTS)
@pytest.mark.parametrize('name', CASES)
def test_value_and_weight_of_every_token(name, layout):
  laid, inputs = _inputs(layout)
  value, weight, _ = _loss(name, inputs)
  got = batches.flat(batches.read(value * weight, STORY, laid))
  want = batches.flat(by_hand(name, STORY.token['logp']))
  np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)
  weight = batches.flat(batches.read(weight, STORY, laid))
  np.testing.assert_array_equal(weight, batches.flat(STORY.token['value']))


@pytest.mark.parametrize('name', CASES)
def test_gradient_with_its_stop_gradients(name):
  laid, (outputs, *rest) = _inputs()
  r = np.random.default_rng(0)
  coef = [[r.normal(size=n) for n in sizes] for sizes in STORY.size]
  at = np.zeros(outputs.logp.shape)
  rows = laid.batch.rows
  for i, turns in enumerate(coef):
    for k, c in enumerate(turns):
      at[rows.sampled & (rows.traj == i) & (rows.turn == k)] = c

  def total(outputs):
    value, weight, _ = _loss(name, (outputs, *rest))
    return jnp.sum(value * weight * at)

  grads = batches.read(jax.grad(total)(outputs).logp, STORY, laid)
  size = 0.0
  for _ in range(3):
    way = [[r.normal(size=n) for n in sizes] for sizes in STORY.size]
    pairs = list(zip(STORY.token['logp'], way, strict=True))
    sides = []
    for h in (1e-6, -1e-6):
      moved = [[x + h * d for x, d in zip(*pair, strict=True)]
               for pair in pairs]  # fmt: skip
      values = batches.flat(by_hand(name, moved))
      sides.append(np.sum(values * batches.flat(coef)))
    want = (sides[0] - sides[1]) / 2e-6
    size += abs(want)
    got = np.sum(batches.flat(grads) * batches.flat(way))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-8)
  assert size > 0.1


@pytest.mark.parametrize('name', CASES)
def test_rows_are_coupled_where_it_says_so(name):
  """Rows of second turns move the values of other turns, or do not."""
  _, (outputs, *rest) = _inputs('turn')
  second = jnp.any(rest[0].rows.turn == 1, axis=1, keepdims=True)
  moved = jnp.where(second, 1.1 * outputs.logp, outputs.logp)
  values = [_loss(name, (x, *rest))[0]
            for x in (outputs, outputs.replace(logp=moved))]  # fmt: skip
  same = bool(jnp.all(second | (values[0] == values[1])))
  assert same != (name in COUPLED)
  assert registry.get('loss', name).couples == (name in COUPLED)


def _constant():
  """Every token of a trajectory has its advantage and weight 1; ρ as is."""
  laid, (outputs, batch, credit, signals) = _inputs('history')
  of = jnp.arange(7.0) - 3.2
  token = jnp.where(batch.rows.sampled, of[jnp.maximum(batch.rows.traj, 0)], 0)
  weight = batch.rows.sampled.astype(jnp.float64)
  return laid, (outputs, batch, credit.replace(token=token, weight=weight),
                signals)  # fmt: skip


def _slope(name, inputs, **hp):
  outputs, *rest = inputs
  f = registry.bind('loss', name, hp)

  def total(outputs):
    value, weight, _ = f(outputs, *rest, jax.random.key(0))
    return jnp.sum(value * weight)

  return np.asarray(jax.grad(total)(outputs).logp)


def test_gspo_token_is_gspo_where_advantages_are_the_trajectory_s():
  _, inputs = _constant()
  token = _slope('gspo_token', inputs, **CASES['gspo'])
  np.testing.assert_allclose(
    token, _slope('gspo', inputs, **CASES['gspo']), atol=1e-12
  )
  assert np.abs(token).max() > 0.1


@pytest.mark.parametrize('name', FIRST_STEP)
def test_first_step_is_reinforce(name):
  """ρ = 1: log-probs of the learner, of its past and of the sampler agree."""
  _, (outputs, batch, credit, signals) = _constant()
  rows = batch.rows
  same = jnp.where(rows.sampled, outputs.logp, 0)
  batch = batch.replace(rows=rows.replace(logp=same))
  inputs = (outputs, batch, credit, {**signals, 'old_logp': outputs.logp})
  want = _slope('reinforce', inputs)
  np.testing.assert_allclose(_slope(name, inputs), want, atol=1e-12)
  assert np.abs(want).max() > 0.1


def test_first_step_of_nft_is_that_of_grpo():
  """w = √((1 − r)/r): A of a z-scored 0/1 outcome, r its mean."""
  _, (outputs, batch, credit, signals) = _constant()
  rate = credit.target['rate']
  good, bad = jnp.sqrt((1 - rate) / rate), -jnp.sqrt(rate / (1 - rate))
  z = jnp.where(credit.token > 0, good, bad)
  told = {**signals, 'old_logp': outputs.logp}
  credit = credit.replace(token=jnp.where(batch.rows.sampled, z, 0))
  inputs = (outputs, batch, credit, told)
  np.testing.assert_allclose(
    _slope('nft', inputs, weigh='deviation'),
    _slope('ppo', inputs),
    atol=1e-12,
  )


def _two_tokens(logp, a, rate):
  """One trajectory of two tokens, old log-probs 0, all of weight 1."""
  _, (_, batch, credit, signals) = _inputs()
  where = jnp.zeros((1, 2), jnp.int32)
  rows = batch.rows.replace(traj=where, turn=where, sampled=where == 0)
  ones = jnp.ones((1, 2))
  credit = credit.replace(token=a * ones, weight=ones,
                          target={'rate': rate * ones})  # fmt: skip
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
      f = registry.bind('loss', name, {})
      value, weight, _ = f(*inputs, jax.random.key(0))
      np.testing.assert_allclose(value[0], 0.75 * np.array(want), atol=1e-15)
      np.testing.assert_array_equal(weight, [[1, 1]])


def test_nft_lets_go_of_what_is_e_to_the_10_times_as_likely():
  """As the released code, whose ratio ends there, in both modes."""
  inputs = _two_tokens([12.0, 0.0], 1.0, 0.25)
  for name in ('nft', 'nft_sequence'):
    value, _, _ = registry.bind('loss', name, {})(*inputs, jax.random.key(0))
    assert float(value[0, 0]) == -7.5
    assert _slope(name, inputs)[0, 0] == 0


def test_a_sequence_of_nft_counts_once_whatever_its_length():
  """By the reducer of its config, the loss is that of the trajectories."""
  c = nft_sequence.get_config()
  laid, (outputs, batch, credit, signals) = _constant()
  rate = jnp.full(credit.token.shape, 0.3)
  credit = credit.replace(target={'rate': rate})
  f = registry.bind('loss', 'nft_sequence', {})
  value, weight, _ = f(outputs, batch, credit, signals, jax.random.key(0))
  reduce = registry.bind('reduce', c.reduce.nft_sequence, {})
  coef = reduce(weight, batch.rows, *batch.turns.valid.shape)
  by_traj = [float(x[0][0]) for x in batches.read(value, STORY, laid)]
  got = float(jnp.sum(coef * value))
  np.testing.assert_allclose(got, np.mean(by_traj), rtol=1e-12)


def test_last_turn_of_ppo_suffix_is_ppo_of_its_one_token():
  _, (outputs, batch, credit, signals) = _constant()
  rows = batch.rows
  batch = batch.replace(rows=rows.replace(turn=jnp.where(
    rows.sampled, jnp.cumsum(rows.sampled, 1) - 1, -1
  ).astype(jnp.int32)))  # fmt: skip
  more = batch.turns.valid.shape[0], rows.turn.shape[1]
  turns = batch.turns.replace(valid=jnp.ones(more, bool))
  batch = batch.replace(turns=turns)
  inputs = (outputs, batch, credit, signals)
  value, _, told = registry.bind('loss', 'ppo_suffix', {'far': 0.0})(
    *inputs, jax.random.key(0)
  )
  want, weight, _ = registry.bind('loss', 'ppo', {})(*inputs, jax.random.key(0))
  np.testing.assert_allclose(value * weight, want * weight, atol=1e-12)
  assert float(told['suffix'][0]) == float(weight.sum())


def test_golden_sequence_ratio():
  """Log-ratios .1, -.2, .4 have the ratio exp(.1)."""
  _, (outputs, batch, credit, signals) = _constant()
  where = jnp.zeros_like(outputs.logp).at[0, 2:5].set(1)
  rows = batch.rows.replace(
    traj=jnp.where(where > 0, 0, -1).astype(jnp.int32),
    turn=jnp.where(where > 0, 0, -1).astype(jnp.int32),
    sampled=where > 0,
  )
  gaps = jnp.zeros_like(where).at[0, 2:5].set(jnp.array([0.1, -0.2, 0.4]))
  logp = signals['old_logp'] + gaps
  credit = credit.replace(weight=where, token=where)
  inputs = (outputs.replace(logp=logp), batch.replace(rows=rows), credit)
  value, _, _ = registry.bind('loss', 'gspo', {'clip_high': 1.0})(
    *inputs, signals, jax.random.key(0)
  )
  np.testing.assert_allclose(value[0, 2:5], -1.105171, rtol=1e-6)


@pytest.mark.parametrize('name', CASES)
def test_far_log_probs_stay_finite(name):
  _, (outputs, *rest) = _inputs()
  for far in (-800.0, 0.0):
    inputs = (outputs.replace(logp=jnp.full_like(outputs.logp, far)), *rest)
    assert np.isfinite(np.asarray(_loss(name, inputs)[0])).all()
    assert np.isfinite(_slope(name, inputs)).all()


def test_on_an_explicit_mesh():
  _, inputs = _inputs()

  def slopes(inputs):
    outputs, *rest = inputs

    def total(outputs):
      terms = (_loss(name, (outputs, *rest)) for name in CASES)
      return sum(jnp.sum(value * weight) for value, weight, _ in terms)

    return jax.grad(total)(outputs).logp

  plain = slopes(inputs)
  found = batches.on_a_mesh(slopes, (inputs,), inputs[0].logp.shape)
  np.testing.assert_allclose(plain, found, rtol=1e-9, atol=1e-12)
