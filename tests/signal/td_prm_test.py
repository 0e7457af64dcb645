"""Temporal differences of an implicit PRM: loss, gradient and rewards by loops.

φ and V are tables of words in float64, so that a gradient can be counted; a
small decoder shows that the same holds of networks.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import optimizer, registry
from agentrl.configs import base
from agentrl.configs import td_prm as td_prm_config
from agentrl.learner import update
from agentrl.model import policy, value
from agentrl.signal import td_prm
from agentrl.signal.base import Context
from agentrl.types import Module, Outputs, TrainState
from tests import batches, errors, states
from tests.signal.implicit_prm_test import SHAPE, make_batch

STORY = batches.story(seed=23, groups=2, members=4, turns=4)
# Powers of two, for rates are in float32.
LR, FLAT = 2.0**-4, 2.0**50  # Adam divides by nothing else: a plain step
WORDS, BETA, GAMMA = 9, 0.7, 0.9
RULE = optimizer.OptimizerConfig(
  lr=LR * FLAT, eps=FLAT, b1=0.0, b2=0.0, max_grad_norm=np.inf
)
ROLES = ('policy', 'prm', 'previous', 'value')


def _apply(params, rows, needs):
  """What the token's entry of the table says, of whatever is asked."""
  entry = params['table'][rows.tokens]
  fields = {'value': entry[..., None], 'logp': entry}
  return Outputs(**{name: fields[name] for name in needs})


CONTEXT = Context(
  dict.fromkeys(ROLES, Module({}, _apply)),
  {'prm': RULE, 'value': RULE},
  micro=4,
)


def _tables():
  r = np.random.default_rng(4)
  return {role: r.normal(size=WORDS) for role in ROLES}


def _state(tables) -> TrainState:
  params = {role: {'table': jnp.asarray(x)} for role, x in tables.items()}
  opt = {role: optimizer.init(RULE, params[role]) for role in CONTEXT.rules}
  return states.state(params=params, opt=opt)


def _words(s, laid):
  """[trajectory][turn] -> ids of the sampled tokens."""
  return batches.read(laid.batch.rows.tokens, s, laid)


def _goals(s, words, v, kind):
  """[trajectory][turn] -> target, as a recursion from the end."""
  out = []
  for i, turns in enumerate(words):
    goals, ahead = [], 0.0
    for k in reversed(range(len(turns))):
      goals.append(s.reward[i][k] + GAMMA * ahead)
      ahead = goals[-1] if kind == 'outcome' else v[turns[k][0]]
    out.append(goals[::-1])
  return out


def _errors(s, laid, tables, kind, goals=None, off=()):
  """{(i, k): (V + δ − target, words)} of the turns that count."""
  words, old = _words(s, laid), s.token['old_logp']
  if goals is None:
    goals = _goals(s, words, tables['value'], kind)
  out = {}
  for i, turns in enumerate(words):
    for k, ids in enumerate(turns):
      if (i, k) in off or (kind == 'outcome' and (i, ...) in off):
        continue
      ratio = BETA * sum(tables['prm'][w] - x for w, x in zip(ids, old[i][k]))  # noqa: B905
      ratio = 0.0 if kind == 'critic' else ratio
      out[i, k] = tables['value'][ids[0]] + ratio - goals[i][k], ids
  return out


def _loss(*args, **kwargs):
  errors = _errors(*args, **kwargs)
  return sum(e * e for e, _ in errors.values()) / len(errors)


def _gradient(s, laid, tables, kind, goals=None, off=()):
  """2 / n Σ e · d(V + δ), the target standing still: {role: [WORDS]}."""
  errors = _errors(s, laid, tables, kind, goals, off)
  out = {role: np.zeros(WORDS) for role in ('prm', 'value')}
  for e, ids in errors.values():
    out['value'][ids[0]] += 2 * e / len(errors)
    for w in ids:
      out['prm'][w] += 2 * e / len(errors) * BETA
  if kind == 'critic':
    out['prm'][:] = 0
  return out


SIGNALS = {
  'next': lambda **hp: td_prm.td_prm(CONTEXT, beta=BETA, gamma=GAMMA, **hp),
  'outcome': lambda **hp: td_prm.td_prm_by_outcome(
    CONTEXT, beta=BETA, gamma=GAMMA, **hp
  ),
  'critic': lambda **hp: td_prm.td_error(CONTEXT, gamma=GAMMA, **hp),
}


def _same_tables(params, tables, atol=0.0):
  for role in ('prm', 'value'):
    got = np.asarray(params[role]['table'])
    np.testing.assert_allclose(got, tables[role], rtol=1e-9, atol=atol)


def _stepped(tables, grads):
  """The tables after a plain step down the gradient."""
  return tables | {role: tables[role] - LR * g for role, g in grads.items()}


def fast(*names):
  """The signals, slow but for those named."""
  return [
    pytest.param(name, marks=[pytest.mark.nightly] * (name not in names))
    for name in SIGNALS
  ]


def _learned(kind, steps, **hp):
  signal = SIGNALS[kind](steps=steps, **hp)
  assert signal.order == 'update_then_score'

  def f(tables, batch, signals):
    state, metrics = signal.update(_state(tables), batch, signals, None)
    return state.params, metrics, signal.score(state, batch, signals)[0]

  return f


@functools.cache
def _update(kind, steps):
  return jax.jit(_learned(kind, steps))


@pytest.mark.usefixtures('float64')
@pytest.mark.parametrize('kind', SIGNALS)
def test_loss_and_gradient_are_those_of_loops(kind):
  laid, tables = batches.lay(STORY, 'packed', padding=2), _tables()
  params, metrics, _ = _update(kind, 1)(tables, laid.batch, laid.signals)
  value, weight = metrics['value/td_error']
  want = _loss(STORY, laid, tables, kind)
  np.testing.assert_allclose(float(value) / float(weight), want, rtol=1e-12)
  grads = _gradient(STORY, laid, tables, kind)
  _same_tables(params, _stepped(tables, grads))
  assert np.abs(grads['value']).max() > 0.1


@pytest.mark.slow
@pytest.mark.usefixtures('float64')
@pytest.mark.parametrize('kind', SIGNALS)
@pytest.mark.parametrize('layout', batches.LAYOUTS)
def test_rows_and_mesh_do_not_matter(layout, kind):
  laid, tables = batches.lay(STORY, layout, padding=2), _tables()

  def run(batch, signals):
    return _learned(kind, 1)(tables, batch, signals)

  args, shape = (laid.batch, laid.signals), laid.batch.rows.tokens.shape
  params, _, fields = batches.on_a_mesh(run, args, shape, explicit=False)
  _same_tables(params, _stepped(tables, _gradient(STORY, laid, tables, kind)))
  alone = _update(kind, 1)(tables, *args)[2]
  (step,), (want,) = fields.values(), alone.values()
  np.testing.assert_allclose(step, want, rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures('float64')
@pytest.mark.parametrize('kind', fast('next', 'critic'))
def test_three_steps_have_a_target_each_and_rewards_come_after(kind):
  laid, tables = batches.lay(STORY, 'turn', padding=2), _tables()
  params, _, fields = _update(kind, 3)(tables, laid.batch, laid.signals)
  for _ in range(3):
    tables = _stepped(tables, _gradient(STORY, laid, tables, kind))
  _same_tables(params, tables, 1e-12)
  words, old = _words(STORY, laid), STORY.token['old_logp']
  goals = _goals(STORY, words, tables['value'], 'next')
  (step,) = fields.values()
  want = np.zeros_like(step)
  for i, turns in enumerate(words):
    for k, ids in enumerate(turns):
      ratio = BETA * np.sum(tables['prm'][ids] - old[i][k])
      error = goals[i][k] - tables['value'][ids[0]]
      want[i, k] = error if kind == 'critic' else ratio
  np.testing.assert_allclose(step, want, rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures('float64')
def test_targets_stand_for_a_period():
  """Of five steps the first, third and fifth have new ones."""
  laid, tables = batches.lay(STORY, 'turn', padding=2), _tables()
  learned = jax.jit(_learned('next', 5, period=2))
  params, *_ = learned(tables, laid.batch, laid.signals)
  for i in range(5):
    if i % 2 == 0:
      goals = _goals(STORY, _words(STORY, laid), tables['value'], 'next')
    grads = _gradient(STORY, laid, tables, 'next', goals=goals)
    tables = _stepped(tables, grads)
  _same_tables(params, tables, 1e-12)


@pytest.mark.usefixtures('float64')
@pytest.mark.parametrize('kind', fast('next', 'outcome'))
def test_who_does_not_count_teaches_nothing(kind):
  """An unjudged turn is no target; returns that pass it are unknown."""
  laid, tables = batches.lay(STORY, 'turn', padding=2), _tables()
  turns = laid.batch.turns
  scored = np.ones_like(turns.valid)
  scored[1, 2] = False
  reward = np.where(scored, turns.reward, 1e3)
  batch = laid.batch.replace(turns=turns.replace(scored=scored, reward=reward))
  params, *_ = _update(kind, 1)(tables, batch, laid.signals)
  off = ((1, 2), (1, ...))
  grads = _gradient(STORY, laid, tables, kind, off=off)
  _same_tables(params, _stepped(tables, grads))


@pytest.mark.usefixtures('float64')
def test_phi_moves_as_the_policy_did():
  tables = _tables()
  state = jax.jit(td_prm.carry_along)(_state(tables))
  got = {role: np.asarray(x['table']) for role, x in state.params.items()}
  want = tables['policy'] + tables['prm'] - tables['previous']
  np.testing.assert_allclose(got['prm'], want, rtol=1e-12)
  np.testing.assert_array_equal(got['previous'], tables['policy'])
  np.testing.assert_array_equal(got['policy'], tables['policy'])
  again = jax.jit(td_prm.carry_along)(state)
  np.testing.assert_allclose(again.params['prm']['table'], want, rtol=1e-12)


def test_phi_that_is_the_policy_stays_the_policy_to_the_bit():
  tables = {name: x.astype(np.float32) for name, x in _tables().items()}
  tables['prm'] = tables['previous']
  state = jax.jit(td_prm.carry_along)(_state(tables))
  np.testing.assert_array_equal(
    state.params['prm']['table'], state.params['policy']['table']
  )


# ---- a language model


def _decoder():
  language = policy.module(SHAPE)
  modules = dict.fromkeys(('policy', 'prm', 'previous'), language)
  modules['value'] = value.module(SHAPE, 1)
  rule = optimizer.OptimizerConfig(lr=3e-3)
  context = Context(modules, dict.fromkeys(('policy', 'prm', 'value'), rule), 4)
  batch = make_batch()
  won = batch.outcome[:, None] * (np.arange(3) == 0)[None]
  turns = batch.turns
  return context, batch.replace(turns=turns.replace(reward=won * turns.valid))


@pytest.mark.nightly
def test_a_language_model_learns_the_rewards():
  context, batch = _decoder()
  alg = update.Algorithm.from_spec(registry.MethodSpec(), context)
  state = update.init(alg, jax.random.key(0))
  signal = td_prm.td_prm(context, steps=8)

  @jax.jit
  def run(state):
    old = context.outputs('policy', state.params['policy'], batch.rows, 'logp')
    signals = {'old_logp': old.logp}
    before, _ = signal.score(signal.begin(state), batch, signals)
    losses = []
    for _ in range(2):
      state, metrics = signal.update(state, batch, signals, None)
      losses.append(metrics['value/td_error'][0])
    fields, metrics = signal.score(state, batch, signals)
    return before, losses, fields, metrics

  before, losses, fields, metrics = jax.device_get(run(state))
  assert not before['td_prm.step'].any()
  assert losses[1] < 0.5 * losses[0]
  step = fields['td_prm.step']
  assert np.abs(step[np.asarray(batch.turns.valid)]).max() > 1e-2
  assert not step[~np.asarray(batch.turns.valid)].any()
  assert metrics['prm/reward_size'][0] > 0


@pytest.mark.parametrize(
  ('field', 'value', 'want'),
  [
    ('value.heads', 0, 'train role.value.heads 1 td_prm'),
    ('prm.heads', 1, 'train role.prm.heads 0 td_prm'),
    ('previous.kind', 'frozen', 'ema role.previous.heads 0 td_prm'),
  ],
)
def test_roles_are_of_the_kind_that_it_learns_with(field, value, want):
  c = td_prm_config.get_config('tiny')
  registry.check(base.wiring(c), c)
  c.role.update_from_flattened_dict({field: value})
  with errors.raises(ValueError, want):
    registry.check(base.wiring(c), c)
