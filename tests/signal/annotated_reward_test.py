"""Rewards learned from late labels, against float64 and on look-alikes."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import mesh, optimizer, registry
from agentrl.configs import oni_learned
from agentrl.memory import annotations
from agentrl.run.check import validate
from agentrl.signal import annotated_reward as lib
from agentrl.signal.base import Context
from agentrl.types import Batch, Module, Outputs
from tests import errors, states

RULE = optimizer.OptimizerConfig(lr=0.1)
WORDS = 8
N, K = 5, 3


def apply(params, rows, needs):
  return Outputs(value=params['table'][rows.tokens])


CONTEXT = Context({'reward': Module({}, apply)}, {'reward': RULE}, 2)


def labelled(seed=0, share=0.6):
  """Values, labels in [0, 1] and which are known, in float64: [N, K]."""
  r = np.random.default_rng(seed)
  known = r.random((N, K)) < share
  label = np.where(known, r.integers(0, 3, (N, K)) / 2, np.nan)
  return r.normal(size=(N, K)), np.where(known, label, 0.0), known


def sigmoid(x):
  return 1 / (1 + np.exp(-x))


@pytest.mark.usefixtures('float64')
def test_classification_is_cross_entropy_and_its_gradient():
  h, label, known = labelled()
  (loss, told), gradient = jax.value_and_grad(lib.classified, has_aux=True)(
    *map(jnp.asarray, (h, label, known))
  )
  p, y = sigmoid(h[known]), label[known]
  want = -np.mean(y * np.log(p) + (1 - y) * np.log(1 - p))
  np.testing.assert_allclose(loss, want, rtol=1e-12)
  slope = np.where(known, (sigmoid(h) - label) / known.sum(), 0)
  np.testing.assert_allclose(gradient, slope, rtol=1e-12)
  right = np.sum((p > 0.5) == (y > 0.5))
  assert told['accuracy'] == (right, known.sum())


@pytest.mark.usefixtures('float64')
def test_ranking_is_bradley_terry_over_a_circle_of_labelled_turns():
  """Each labelled turn is in two pairs; the others are in none."""
  h, label, known = labelled(1)
  key = jax.random.key(3)
  args = tuple(map(jnp.asarray, (h, label, known)))
  (loss, told), gradient = jax.value_and_grad(lib.ranked, has_aux=True)(
    *args, key
  )
  noise = np.asarray(jax.random.uniform(key, (N * K,)))
  order = [i for i in np.argsort(noise) if known.reshape(-1)[i]]
  want, slope = 0.0, np.zeros(N * K)
  right = differ = 0
  flat, score = h.reshape(-1), label.reshape(-1)
  for i, j in zip(order, order[1:] + order[:1], strict=True):
    p = (1 + np.sign(score[i] - score[j])) / 2
    d = flat[i] - flat[j]
    want -= p * np.log(sigmoid(d)) + (1 - p) * np.log(sigmoid(-d))
    slope[i] += sigmoid(d) - p
    slope[j] -= sigmoid(d) - p
    differ += p != 0.5
    right += p != 0.5 and (d > 0) == (p > 0.5)
  np.testing.assert_allclose(loss, want / len(order), rtol=1e-12)
  np.testing.assert_allclose(gradient, slope.reshape(N, K) / len(order))
  assert told['pair_accuracy'] == (right, differ)
  assert 0 < right < differ < len(order)


def test_one_labelled_turn_makes_no_pair():
  h, label, known = labelled()
  known = np.zeros_like(known)
  known[1, 1] = True
  loss, told = lib.ranked(
    *map(jnp.asarray, (h, label, known)), jax.random.key(0)
  )
  assert loss == told['pair_accuracy'][1] == 0


@pytest.mark.usefixtures('float64')
def test_scores_are_normalised_by_all_so_far_and_cut_at_a_quantile():
  state, every = lib_state(), []
  for seed in range(3):
    x, _, mask = labelled(seed + 5)
    x = x * (seed + 1) + seed
    state = lib.moments(state, jnp.asarray(x), jnp.asarray(mask))
    every.append(x[mask])
  seen = np.concatenate(every)
  np.testing.assert_allclose(state['mean'], seen.mean(), rtol=1e-6)
  variance = state['squares'] / state['count']
  np.testing.assert_allclose(variance, seen.var(), rtol=1e-6)
  for q in (0.0, 0.3, 0.5, 1.0):
    got = lib.normalised(state, jnp.asarray(x), jnp.asarray(mask), q)
    z = (x - seen.mean()) / seen.std()
    cut = np.quantile(z[mask], q)
    want = np.where(z >= cut - 1e-9, z, 0)
    np.testing.assert_allclose(np.asarray(got)[mask], want[mask], rtol=1e-5)
    kept = np.count_nonzero(np.asarray(got)[mask])
    assert kept == np.sum(z[mask] >= cut - 1e-9)


def lib_state():
  return {x: jnp.zeros(()) for x in ('count', 'mean', 'squares')}


def test_the_quantile_of_nothing_pays_nobody():
  x, none = jnp.ones((2, 2)), jnp.zeros((2, 2), bool)
  assert not np.isfinite(lib.quantile(x, none, 0.5))


def turns(tokens):
  """A batch of trajectories of one turn each, which says one token."""
  n = len(tokens)
  batch = Batch.from_turns(
    [[[x]] for x in tokens], [[[0.0]]] * n, reward=[[0.0]] * n, group=[0] * n
  )
  terms = {'judged': np.zeros((n, 1)), 'judged_known': np.zeros((n, 1))}
  terms = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), terms)
  # Each was read elsewhere, so that no two turns are equal.
  state = jnp.arange(n, dtype=jnp.int32)[:, None]
  return batch.replace(turns=batch.turns.replace(terms=terms, state=state))


def bring(batch, label, known):
  terms = {'judged': label, 'judged_known': known}
  terms = {k: jnp.asarray(x, jnp.float32)[:, None] for k, x in terms.items()}
  return batch.replace(turns=batch.turns.replace(terms=terms))


FIRST = [0, 1, 2, 3, 0, 1, 2, 3]
GOOD = np.array([x % 2 for x in FIRST], np.float32)


@functools.cache
def held(of=8):
  """The memory after the labels of `of` turns of the first batch have come."""
  m = registry.bind('memory', annotations.NAME, dict(lag=1, batches=2))()
  state = m.init(turns(FIRST), 0)
  state = m.write(state, turns(FIRST), None, 0)
  late = bring(turns(FIRST), GOOD * (np.arange(8) < of), np.arange(8) < of)
  return m, m.write(state, late, None, 1)


@functools.cache
def learned(form, of=8):
  """The signal, and the state after updates by what is held."""
  signal = lib.annotated_reward(CONTEXT, form=form)
  table = {'table': jnp.zeros((WORDS, 1))}
  state = states.state(
    params={'reward': table},
    opt={'reward': optimizer.init(RULE, table)},
    memory={annotations.NAME: held(of)[1]},
    signal={lib.NAME: signal.init()},
  )
  update = jax.jit(signal.update)
  for step in range(15):
    state = state.replace(step=jnp.int32(step))
    state, told = update(state, turns(FIRST), {}, None)
  return signal, state, told


# Of the same words as the first batch, but none of its turns.
ELSE = [3, 2, 1, 0, 3, 3, 2, 2]


def elsewhere():
  batch = turns(ELSE)
  state = batch.turns.state + 100
  return batch.replace(turns=batch.turns.replace(state=state))


@pytest.mark.slow
@pytest.mark.parametrize('form', lib.FORMS)
def test_a_turn_that_was_never_labelled_is_paid_as_its_look_alike(form):
  signal, state, told = learned(form)
  fields, _ = jax.jit(signal.score)(state, turns(FIRST), {})
  own = np.asarray(fields[f'{lib.NAME}.step'])[:, 0]
  fields, paid = jax.jit(signal.score)(state, elsewhere(), {})
  other = np.asarray(fields[f'{lib.NAME}.step'])[:, 0]
  good = np.array([x % 2 for x in ELSE], bool)
  assert (own[GOOD > 0] > 0).all()
  assert not own[GOOD == 0].any()
  by_word = dict(zip(FIRST, own, strict=True))
  np.testing.assert_allclose(other, [by_word[x] for x in ELSE], rtol=1e-6)
  assert paid[f'{lib.NAME}/paid'] == (good.sum(), len(good))
  kind = 'accuracy' if form == 'classification' else 'pair_accuracy'
  right, of = told[f'{lib.NAME}/{kind}']
  assert right == of > 0
  # A look-up pays the turns that were labelled, and no others.
  m, memory = held()
  for batch, want in ((turns(FIRST), GOOD), (elsewhere(), 0 * GOOD)):
    _, found = m.read(memory, batch, 2, jax.random.key(0))
    np.testing.assert_array_equal(found['annotations.label'][:, 0], want)


@pytest.mark.parametrize('form', lib.FORMS)
def test_nothing_is_paid_before_the_first_label(form):
  signal, state, _ = learned(form, 0)
  params = learned(form)[1].params  # which would pay
  state = state.replace(params=params)
  fields, _ = jax.jit(signal.score)(state, turns(FIRST), {})
  assert not np.any(fields[f'{lib.NAME}.step'])


@pytest.mark.parametrize('form', lib.FORMS)
def test_it_goes_on_paying_when_the_last_label_is_forgotten(form):
  signal, state, _ = learned(form)
  before, _ = jax.jit(signal.score)(state, turns(FIRST), {})
  state = state.replace(memory={annotations.NAME: held(0)[1]})
  state, _ = jax.jit(signal.update)(state, turns(FIRST), {}, None)
  after, _ = jax.jit(signal.score)(state, turns(FIRST), {})
  paid = [np.asarray(x[f'{lib.NAME}.step']) > 0 for x in (before, after)]
  assert paid[0].any()
  np.testing.assert_array_equal(*paid)


@pytest.mark.parametrize('form', lib.FORMS)
def test_it_learns_from_labels_that_have_come_alone(form):
  """Of the first four turns, 0 to 3, two are labelled: 0 bad and 1 good."""
  _, state, _ = learned(form, 2)
  table = np.asarray(state.params['reward']['table'])[:, 0]
  assert table[1] > 0 > table[0]
  np.testing.assert_array_equal(table[2:], 0)


@pytest.mark.parametrize(
  ('changes', 'names'),
  [
    ({'role.reward.heads': 0}, 'role.reward.heads 0'),
    ({'role.reward.heads': 2}, 'role.reward.heads 1 2'),
    ({'hp.signal.annotated_reward.form': 'regress'}, 'form regress'),
    (
      {'hp.signal.annotated_reward.quantile_cut': 1.5},
      'annotated_reward.quantile_cut 1.5',
    ),
    ({'memory': (), 'hp.memory': {}}, 'memory:annotations annotated_reward'),
  ],
)
def test_what_does_not_fit_is_refused(changes, names):
  c = oni_learned.get_config('tiny')
  for path, value in changes.items():
    node, _, last = path.rpartition('.')
    section = c
    for name in filter(None, node.split('.')):
      section = section[name]
    section[last] = value
  with errors.raises(ValueError, names):
    validate.config(c)


def drawn_losses(state, key):
  """What is drawn, and both losses of values made of it."""
  batch, label, known = lib.draw(state, 6, key)
  h = jnp.cos(label + jnp.arange(6.0)[:, None])
  ranked, _ = lib.ranked(h, label, known, key)
  classified, _ = lib.classified(h, label, known)
  running = lib.moments(lib_state(), h, known)
  paid = lib.normalised(running, h, known, 0.5)
  return batch, label, known, ranked, classified, paid


@pytest.mark.slow
def test_on_an_explicit_mesh():
  state, key = held()[1], jax.random.key(4)
  want = jax.jit(drawn_losses)(state, key)
  with jax.set_mesh(mesh.make({'fsdp': 2, 'tensor': 2})):
    got = jax.jit(drawn_losses)(jax.device_put(state, jax.P()), key)
  near = functools.partial(np.testing.assert_allclose, rtol=1e-6)
  jax.tree.map(near, got, want)
  batch, label, known = want[:3]
  assert known.all()
  words = np.asarray(batch.rows.tokens)[np.asarray(batch.rows.sampled)]
  np.testing.assert_array_equal(label[:, 0], words % 2)
