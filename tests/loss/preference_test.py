"""Losses over pairs, against loops over the halves in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import agentrl.loss  # noqa: F401  registers the losses
from agentrl import registry
from agentrl.learner import policy_gradient
from agentrl.learner.algorithm import POLICY, Algorithm
from agentrl.loss import reduce
from agentrl.signal.base import Context
from agentrl.types import Module, Outputs, Pairs
from tests import batches, errors
from tests.loss import ratio_inputs

pytestmark = pytest.mark.usefixtures('float64')

STORY = ratio_inputs.STORY
# (win, lose, weight); trajectory 2 has no weight, so its pair does not count.
PAIRS = (
  ((0, -1), (1, -1), 1.0),
  ((3, -1), (1, -1), 0.5),
  ((1, 0), (1, len(STORY.size[1]) - 1), 2.0),
  ((2, -1), (0, -1), 3.0),
  ((4, 0), (5, 0), 0.0),
)
CASES = (
  ('dpo', {'beta': 0.3}),
  ('dpo', {'beta': 0.3, 'smoothing': 0.2}),
  ('dpo', {'beta': 2.0, 'per': 'mean', 'reference': 'old_logp'}),
  ('ipo', {'beta': 0.7}),
  ('ipo', {'beta': 0.7, 'per': 'mean'}),
  ('orpo', {'odds': 0.6}),
  ('simpo', {'beta': 1.5, 'target': 0.4}),
  ('winner_nll', {}),
  ('kto', {'beta': 0.4, 'win': 1.3, 'lose': 0.6}),
)


def sigmoid(x):
  return 1 / (1 + np.exp(-x))


def half(place, logp):
  """Sums of weights, log-probs and references of a half, token by token."""
  i, turn = place
  turns = range(len(STORY.size[i])) if turn < 0 else [turn]
  out = dict.fromkeys(('n', 'logp', 'ref_logp', 'old_logp'), 0.0)
  for k in turns:
    for j in range(STORY.size[i][k]):
      w = STORY.token['value'][i][k][j]
      out['n'] += w
      out['logp'] += w * logp[i][k][j]
      for name in ('ref_logp', 'old_logp'):
        out[name] += w * STORY.token[name][i][k][j]
  return out


def by_hand(name, hp, logp, still):
  """The published equations, a mean over the pairs that count.

  Args:
    still: log-probs behind the stop-gradient
  """
  reference = hp.get('reference', 'ref_logp')
  each = []
  for win, lose, weight in PAIRS:
    a, b = half(win, logp), half(lose, logp)
    if weight and a['n'] and b['n']:
      each.append((a, b, weight, half(win, still), half(lose, still)))

  def ratio(x):
    scale = x['n'] if hp.get('per') == 'mean' else 1
    return (x['logp'] - x[reference]) / scale

  total, weights = 0.0, sum(x[2] for x in each)
  z = sum(w * (ratio(c) + ratio(d)) / 2 for _, _, w, c, d in each) / weights
  z = max(z, 0)
  for a, b, weight, _, _ in each:
    if name in ('dpo', 'ipo', 'kto'):
      d = ratio(a) - ratio(b)
    if name == 'dpo':
      e, d = hp.get('smoothing', 0), hp['beta'] * d
      loss = -(1 - e) * np.log(sigmoid(d)) - e * np.log(sigmoid(-d))
    elif name == 'ipo':
      loss = (d - 1 / (2 * hp['beta'])) ** 2
    elif name == 'orpo':
      p, q = (np.exp(x['logp'] / x['n']) for x in (a, b))
      odds = np.log(p / (1 - p)) - np.log(q / (1 - q))
      loss = -np.log(p) - hp['odds'] * np.log(sigmoid(odds))
    elif name == 'simpo':
      d = a['logp'] / a['n'] - b['logp'] / b['n']
      loss = -np.log(sigmoid(hp['beta'] * d - hp['target']))
    elif name == 'winner_nll':
      loss = -a['logp'] / a['n']
    else:
      good = 1 - sigmoid(hp['beta'] * (ratio(a) - z))
      bad = 1 - sigmoid(hp['beta'] * (z - ratio(b)))
      loss = (hp['win'] * good + hp['lose'] * bad) / 2
    total += weight * loss / weights
  return total


def make_inputs(layout='packed'):
  laid, (outputs, batch, credit, signals) = ratio_inputs.make_inputs(layout)
  signals = {**signals, 'ref_logp': laid.tokens['ref_logp']}
  win, lose, weight = (jnp.asarray(x) for x in zip(*PAIRS, strict=True))
  batch = batch.replace(pairs=Pairs(win=win, lose=lose, weight=weight))
  return laid, (outputs, batch, credit, signals)


def mean_loss(name, hp, inputs):
  """The loss as a reducer makes it of values of tokens."""
  _, batch, _, _ = inputs
  value, weight, metrics = batches.loss(name, inputs, **hp)
  shape = batch.turns.valid.shape
  coefficient = reduce.token_mean(weight, batch.rows, *shape)
  return jnp.sum(coefficient * value), metrics


@pytest.mark.parametrize('layout', batches.BY_DAY)
@pytest.mark.parametrize(('name', 'hp'), CASES)
def test_loss_and_gradient_are_those_of_loops(name, hp, layout):
  logp = STORY.token['logp']
  laid, (outputs, *rest) = make_inputs(layout)

  @jax.jit
  def loss(logp):
    got = mean_loss(name, hp, (Outputs(logp=logp), *rest))[0]
    return jnp.sum(got)

  got, grad = jax.jit(jax.value_and_grad(loss))(outputs.logp)
  want = by_hand(name, hp, logp, logp)
  np.testing.assert_allclose(got, want, rtol=1e-10)
  grad = batches.read(grad, STORY, laid)
  r, size = np.random.default_rng(0), 0.0
  for _ in range(3):
    way = [[r.normal(size=len(x)) for x in xs] for xs in logp]

    def moved(h):
      return [
        [x + h * y for x, y in zip(xs, ys, strict=True)]
        for xs, ys in zip(logp, way, strict=True)
      ]

    ends = [by_hand(name, hp, moved(h), logp) for h in (1e-5, -1e-5)]
    slope = (ends[0] - ends[1]) / 2e-5
    along = sum(
      np.sum(g * y)
      for gs, ys in zip(grad, way, strict=True)
      for g, y in zip(gs, ys, strict=True)
    )
    np.testing.assert_allclose(along, slope, rtol=1e-6, atol=1e-9)
    size += abs(slope)
  assert size > 1e-3


DPO = jax.jit(lambda *inputs: batches.loss('dpo', inputs))


def test_weights_are_the_pairs_and_stay_on_their_tokens():
  laid, inputs = make_inputs()
  _, weight, metrics = DPO(*inputs)
  each = batches.read(weight, STORY, laid)
  np.testing.assert_allclose(np.sum(weight), 1.0 + 0.5 + 2.0)
  held = [sum(np.sum(x) for x in xs) for xs in each]
  np.testing.assert_allclose(held[0], 0.5)
  np.testing.assert_allclose(held[3], 0.25)
  assert held[2] == held[4] == held[5] == 0
  assert float(metrics['pairs'][0]) == 3.5


def test_accuracy_counts_ties_half():
  _, (outputs, batch, credit, signals) = make_inputs()
  ref = {**signals, 'ref_logp': outputs.logp}
  total, weight = DPO(outputs, batch, credit, ref)[2]['accuracy']
  np.testing.assert_allclose(total / weight, 0.5)


def test_a_turn_that_branches_share_is_in_every_one_of_them():
  """Its tokens are those of one trajectory; the other has a copy."""
  _, (outputs, batch, credit, signals) = make_inputs('history')
  rows, turns = batch.rows, batch.turns
  copy = (rows.traj == 1) & (rows.turn == 0)
  node = turns.node.at[1, 0].set(turns.node[0, 0])
  batch = batch.replace(turns=turns.replace(node=node))
  credit = credit.replace(weight=jnp.where(copy, 0, credit.weight))
  win, lose = jnp.array([[1, -1]]), jnp.array([[3, -1]])
  pairs = Pairs(win=win, lose=lose, weight=jnp.ones(1))
  inputs = (outputs, batch.replace(pairs=pairs), credit, signals)

  def loss(logp):
    return mean_loss('dpo', {'beta': 1.0}, (Outputs(logp=logp), *inputs[1:]))[0]

  def ratio(i, turns):
    here = rows.sampled & (rows.traj == i) & jnp.isin(rows.turn, turns)
    gap = outputs.logp - signals['ref_logp']
    return jnp.sum(jnp.where(here, credit.weight * gap, 0))

  later = jnp.arange(1, turns.valid.shape[1])
  won = ratio(0, jnp.zeros(1)) + ratio(1, later)
  lost = ratio(3, jnp.arange(turns.valid.shape[1]))
  want = -jax.nn.log_sigmoid(won - lost)
  value, grad = jax.jit(jax.value_and_grad(loss))(outputs.logp)
  np.testing.assert_allclose(value, want, rtol=1e-10)
  shared = rows.sampled & (rows.traj == 0) & (credit.weight > 0)
  slope = -jax.nn.sigmoid(lost - won)
  np.testing.assert_allclose(grad[shared], slope, rtol=1e-10)


def apply(params, rows, needs):
  """Log-probs that depend on a token and its place, not on other rows."""
  place = 1 + jnp.arange(rows.tokens.shape[1])[None] / 7
  return Outputs(logp=-jnp.exp(params['a'][rows.tokens]) * place)


def gradient(name, hp, micro, batch, credit, signals):
  alg = Algorithm.from_spec(
    registry.MethodSpec(loss=(name,), hp={name: {name: hp}}),
    Context({POLICY: Module({}, apply)}, {}, micro),
  )
  params = {'a': jnp.linspace(-1.0, 1.0, 9)}
  mask, key = batch.rows.sampled, jax.random.key(0)
  return policy_gradient.gradient(
    alg, params, batch, signals, credit, mask, key
  )


@pytest.mark.slow
def test_micro_batches_and_meshes_only_add():
  """Halves of a pair stand in other micro-batches, and on other devices."""
  name, hp = CASES[0]
  laid, (_, *rest) = make_inputs()
  n, t = laid.batch.rows.tokens.shape

  def f(micro, batch, credit, signals):
    grads, (loss, _) = gradient(name, hp, micro, batch, credit, signals)
    return grads['a'], loss

  want = jax.jit(lambda *x: f(n, *x))(*rest)
  assert np.abs(want[0]).max() > 1e-3
  got = jax.jit(lambda *x: f(2, *x))(*rest)
  jax.tree.map(
    lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-9), got, want
  )
  got = batches.on_a_mesh(lambda *x: f(2, *x), rest, (n, t), explicit=False)
  jax.tree.map(
    lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-9), got, want
  )


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize(('name', 'hp'), CASES)
def test_values_on_an_explicit_mesh(name, hp):
  laid, inputs = make_inputs()
  shape = laid.batch.rows.tokens.shape

  def f(*inputs):
    return mean_loss(name, hp, inputs)[0]

  got = batches.on_a_mesh(f, inputs, shape)
  np.testing.assert_allclose(got, f(*inputs), rtol=1e-10)


def test_a_batch_without_pairs_is_refused():
  _, (outputs, batch, *rest) = make_inputs()
  inputs = (outputs, batch.replace(pairs=None), *rest)
  with errors.raises(ValueError, 'batch.pairs None'):
    batches.loss('dpo', inputs)
