"""Persistence of a PRM's errors by loops, and in the updates of a learner."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import agentrl.loss  # noqa: F401  registers the losses
from agentrl import optimizer, registry
from agentrl.configs import base, oprl, prime, td_prm
from agentrl.configs.studies import measured
from agentrl.lab.papers.dose.prm_persistence import (
  NAME,
  ROLES,
  fits,
  prm_persistence,
)
from agentrl.learner import update
from agentrl.model import policy
from agentrl.run.check import validate
from agentrl.signal.base import Context
from agentrl.types import Module, Outputs
from tests import batches
from tests.advantage import unscored
from tests.signal.implicit_prm_test import SHAPE, make_batch

STORY = batches.story(seed=31, groups=3, members=4, turns=4)
WORDS, OFF = 9, (1, 2)  # a turn that was not scored
MEASURES = 'persistence', 'persistence_within_states'


def _apply(params, rows, needs):
  """The token's entry of the table is its log-prob."""
  return Outputs(**dict.fromkeys(needs, params['table'][rows.tokens]))


CONTEXT = Context(dict.fromkeys(ROLES, Module({}, _apply)), {}, micro=2)
SIGNAL = prm_persistence(CONTEXT, term='judge')


def tables(seed=0):
  """Of both that were before, and of a PRM that learned from there."""
  r = np.random.default_rng(seed)
  drawn = {role: r.normal(size=WORDS) for role in ROLES}
  alike = drawn['prm'] - drawn['policy']
  return drawn | {'now': alike + r.normal(size=WORDS)}


def given(layout='history'):
  laid = batches.lay(STORY, layout, padding=2)
  return laid._replace(batch=unscored.turns(laid.batch, OFF))


def score(tables, batch, signals, exists=1.0):
  last = {role: {'table': jnp.asarray(tables[role])} for role in ROLES}
  state = update.TrainState(
    step=jnp.int32(0),
    params={'prm': {'table': jnp.asarray(tables['now'])}},
    opt={},
    signal={NAME: last | {'exists': jnp.float32(exists)}},
    memory=(),
    key=jax.random.key(0),
  )
  fields, metrics = SIGNAL.score(state, batch, signals)
  assert not fields
  return metrics


def by_loops(laid, tables):
  words = batches.read(laid.batch.rows.tokens, STORY, laid)
  old = STORY.token['old_logp']
  at = [
    (i, k) for i, x in enumerate(words) for k in range(len(x)) if (i, k) != OFF
  ]
  truth = [STORY.step[i][k] for i, k in at]
  now, before = (
    [sum(f(i, k, j, w) for j, w in enumerate(words[i][k])) for i, k in at]
    for f in (
      lambda i, k, j, w: tables['now'][w] - old[i][k][j],
      lambda i, k, j, w: tables['prm'][w] - tables['policy'][w],
    )
  )
  errors = [_residual(x, truth) for x in (now, before)]
  cell = [(STORY.group[i], STORY.state[i][k]) for i, k in at]
  own = [
    [x - np.mean([y for y, d in zip(e, cell, strict=True) if d == c])
     for x, c in zip(e, cell, strict=True)]
    for e in errors
  ]  # fmt: skip
  return np.corrcoef(*errors)[0, 1], np.corrcoef(*own)[0, 1]


def _residual(x, truth):
  """What is left of x where the truth's share is taken, by least squares."""
  x, truth = (np.subtract(y, np.mean(y)) / np.std(y) for y in (x, truth))
  return x - np.polyfit(truth, x, 1)[0] * truth


@pytest.fixture
def _float64():
  with jax.enable_x64(True):
    yield


@pytest.mark.usefixtures('_float64')
@pytest.mark.parametrize('layout', batches.BY_DAY)
def test_measures_are_those_of_loops(layout):
  laid = given(layout)
  metrics = jax.jit(score)(tables(), laid.batch, laid.signals)
  want = by_loops(laid, tables())
  assert np.abs(want).min() > 0.05
  assert abs(want[0] - want[1]) > 1e-3
  for name, x in zip(MEASURES, want, strict=True):
    value, weight = metrics[f'prm/{name}']
    assert weight == 1
    np.testing.assert_allclose(value, x, rtol=1e-6)


@pytest.mark.nightly
@pytest.mark.usefixtures('_float64')
@pytest.mark.parametrize('layout', batches.BY_DAY)
def test_a_mesh_does_not_matter(layout):
  laid = given(layout)
  f = functools.partial(score, tables())
  args, shape = (laid.batch, laid.signals), laid.batch.rows.tokens.shape
  metrics = batches.on_a_mesh(f, args, shape, explicit=False)
  for name, x in zip(MEASURES, by_loops(laid, tables()), strict=True):
    np.testing.assert_allclose(metrics[f'prm/{name}'][0], x, rtol=1e-6)


@pytest.mark.usefixtures('_float64')
@pytest.mark.parametrize(('scale', 'want'), [(1.0, 1), (3.0, 1), (-0.5, -1)])
def test_an_error_that_was_there_before_persists(scale, want):
  """Whatever its size; one that has turned round is at -1."""
  laid, t = given('turn'), tables()
  t['now'] = t['policy'] + scale * (t['prm'] - t['policy'])
  old = t['policy'][laid.batch.rows.tokens]
  metrics = score(t, laid.batch, laid.signals | {'old_logp': old})
  for name in MEASURES:
    np.testing.assert_allclose(metrics[f'prm/{name}'][0], want, rtol=1e-6)


def test_nothing_was_before_the_first_iteration():
  laid = given()
  for name in MEASURES:
    value, weight = score(tables(), *laid[:2], exists=0.0)[f'prm/{name}']
    assert value == 0
    assert weight == 0


def learner(*signals):
  modules = dict.fromkeys(ROLES, policy.module(SHAPE))
  rule = optimizer.OptimizerConfig(lr=3e-3)
  spec = registry.MethodSpec(
    signal=signals,
    advantage=('step',),
    stream={'step': ('add_signal', 'center')},
    loss=('ppo',),
    hp={'step': {'add_signal': {'name': 'implicit_prm.step'}}},
  )
  return update.Algorithm.from_spec(
    spec, Context(modules, dict.fromkeys(ROLES, rule), 16)
  )


def learned(signals, steps=3):
  """Parameters and metrics of updates of one batch, the state donated."""
  alg, batch = learner(*signals), make_batch()
  turns = batch.turns
  progress = np.cos(np.arange(turns.valid.size)).reshape(turns.valid.shape)
  terms = {'progress': progress}
  batch = batch.replace(turns=turns.replace(terms=terms))
  state, metrics = update.init(alg, jax.random.key(0)), []

  @functools.partial(jax.jit, donate_argnums=0)
  def once(state):
    return update.update(alg, state, batch)[:2]

  for _ in range(steps):
    phi = jax.device_get(state.params['prm'])
    state, m = once(state)
    metrics.append(jax.device_get(m))
  return state, metrics, phi


@pytest.mark.slow
def test_nothing_is_learned_from_what_is_measured():
  with_it, metrics, phi = learned((NAME, 'implicit_prm'))
  without, *_ = learned(('implicit_prm',))
  jax.tree.map(np.testing.assert_array_equal, with_it.params, without.params)
  weights = [m['prm/persistence'][1] for m in metrics]
  assert weights == [0, 1, 1]
  # φ was what the policy was, and then what its pairs say of the same batch.
  values = [m['prm/persistence'][0] for m in metrics]
  assert values[1] == 0
  assert abs(values[2]) > 0.1
  kept = with_it.signal[NAME]['prm']  # as it scored, before it learned
  jax.tree.map(np.testing.assert_array_equal, kept, phi)


@pytest.mark.parametrize(
  ('make', 'place'), [(oprl, 'before'), (td_prm, 'after')]
)
def test_errors_of_a_prm_are_measured_where_it_scores(make, place):
  c = make.get_config('tiny')
  (prm,) = c.signal
  places = {'before': (NAME, prm), 'after': (prm, NAME)}
  w = base.wiring(c)
  assert not fits(w._replace(signal=places.pop(place)), c)
  ((_, wrong),) = places.items()
  mistake = fits(w._replace(signal=wrong), c)
  assert mistake.startswith(f'c.signal must name {NAME!r} {place} {prm!r}')


def test_errors_are_measured_of_ratios_to_the_policy():
  c = prime.get_config('tiny')
  w = base.wiring(c)
  mistake = fits(w._replace(signal=(NAME, *w.signal)), c)
  assert "reference must be 'old_logp'" in mistake


@pytest.mark.parametrize('method', ['oprl', 'td_prm'])
def test_a_method_is_measured_where_its_prm_scores(method):
  c = measured.get_config(f'{method},tiny,env=bifurcation')
  validate.config(c)
  assert NAME in c.signal
