"""Dynamic sampling and resampling on correct, on made-up records."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import mesh, registry
from agentrl.advantage import chain
from agentrl.collect import dynamic
from tests import batches, errors
from tests.collect.made_up_records import (
  CASES,
  B,
  G,
  K,
  attempts,
  inputs,
  make_batch,
  make_record,
  score,
)

KEPT = {'enough': (1, 3), 'too_few': (3, 0)}
HISTORY = ('turn', 'full')


@pytest.fixture(scope='module')
def kept():
  """Every case and layout, compiled once for each layout."""
  f = registry.bind('collect', 'dynamic_sampling', {'times': 2})
  out = {}
  for history in HISTORY:

    @jax.jit
    def collect(record, attempts, history=history):
      def sample(attempts, key):
        return make_batch(record, attempts, history)

      return f(inputs(sample, attempts))

    for case, outcome in CASES.items():
      made = collect(make_record(outcome), attempts())
      out[case, history] = jax.device_get(made)
  return out


@pytest.mark.slow
def test_a_host_chooses_on_a_mesh_as_without_one(kept):
  """Nothing is traced there, and rows are split over devices."""
  f = registry.bind('collect', 'dynamic_sampling', {'times': 2})
  made = make_batch(make_record(CASES['enough']), attempts(), 'full')
  made = jax.device_get(made)
  with jax.set_mesh(mesh.make({'fsdp': 2, 'tensor': 2})):
    there = batches.place(made, made.rows.tokens.shape)
    got = jax.device_get(f(inputs(lambda *_: there, attempts())))
  jax.tree.map(np.testing.assert_array_equal, got, kept['enough', 'full'])


@pytest.mark.parametrize('history', HISTORY)
@pytest.mark.parametrize('case', CASES)
def test_dynamic_sampling_is_the_batch_of_its_groups(case, history, kept):
  """As if only these attempts had been made, but for weights and nodes.

  What it took is that of all of them.
  """
  order = (G * np.array(KEPT[case])[:, None] + np.arange(G)).ravel()
  some = lambda tree: jax.tree.map(lambda x: x[order], tree)  # noqa: E731
  record = some(make_record(CASES[case]))
  want = jax.device_get(score(make_batch(record, some(attempts()), history)))
  got = kept[case, history]
  differ = np.array([True] * G + [case == 'enough'] * G)
  of = np.where(want.rows.traj >= 0, differ[want.rows.traj], False)
  weight = np.where(of, want.rows.weight, 0)
  scored = want.turns.scored & differ[:, None]
  assert got.sampled['attempts'] == B == 2 * want.sampled['attempts']
  all_of_them = make_record(CASES[case])
  attempted = {
    'task': attempts().task,
    'outcome': all_of_them.outcome,
    'counts': all_of_them.valid.any(axis=1),
  }
  jax.tree.map(np.testing.assert_array_equal, got.attempted, attempted)
  want = want.replace(
    sampled=got.sampled,
    attempted=got.attempted,
    rows=want.rows.replace(weight=weight),
    turns=want.turns.replace(scored=scored, node=got.turns.node),
  )
  for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
    np.testing.assert_array_equal(x, y)
  assert len(np.unique(got.turns.node)) == got.turns.node.size
  assert (weight > 0).any()


def test_resampling_on_correct_is_the_half_that_curating_keeps():
  """Its groups are half as large; nothing that counts is left behind."""
  outcome = ([0, 0, 0, 1], [0, 1, 1, 1], [1, 1, 1, 1], [0, 0, 1, 1])
  f = registry.bind('collect', 'resample_on_correct', {})
  half = registry.bind('curate', 'correct_and_clean', {})

  @jax.jit
  def both(record, attempts, wrong):
    def sample(attempts, key):
      batch = make_batch(record, attempts, 'turn')
      terms = batch.turns.terms | {'invalid': wrong}
      return batch.replace(turns=batch.turns.replace(terms=terms))

    got = f(inputs(sample, attempts))
    curated = half(score(sample(attempts, None)))
    kept = jnp.any(curated.turns.scored & curated.turns.valid, axis=1)
    # Of the third group, which goes as a whole, the first two fill the batch.
    here = kept | jnp.isin(jnp.arange(B), jnp.array([8, 9]))
    return got, dynamic.take(curated, jnp.flatnonzero(here, size=8)), kept

  wrong = np.random.default_rng(3).integers(0, 2, (B, K)).astype(np.float32)
  got, want, kept = jax.device_get(
    both(make_record(outcome), attempts(), wrong)
  )
  assert kept.reshape(4, G).sum(1).tolist() == [2, 2, 0, 2]
  for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
    np.testing.assert_array_equal(x, y)
  assert got.ids['group'].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
  trained = np.asarray(got.rows.weight).sum(1).reshape(8, -1).sum(1) > 0
  assert trained.tolist() == [True] * 4 + [False] * 2 + [True] * 2


@pytest.mark.parametrize(
  ('name', 'field'),
  [('dynamic_sampling', 'times'), ('resample_on_correct', 'group_times')],
)
def test_what_is_resampled_must_divide_the_attempts(name, field):
  f = registry.bind('collect', name, {field: 3})

  def collect(record):
    batch = make_batch(record, attempts(), 'turn')
    return f(inputs(lambda *_: batch, attempts()))

  with errors.raises(ValueError, f'{field} 3 16'):
    jax.eval_shape(collect, make_record(CASES['enough']))


@pytest.mark.slow
def test_the_contrasting_half_is_the_one_that_curating_keeps():
  """And advantages are those of the half alone."""
  f = registry.bind('collect', 'resample_contrastive', {})
  half = registry.bind('curate', 'contrastive', {})
  record = make_record(CASES['enough'])

  @jax.jit
  def sample(attempts, key):
    return make_batch(record, attempts, 'full')

  got = f(inputs(sample, attempts()))
  curated = half(score(sample(attempts(), None)))
  kept = np.flatnonzero(np.any(curated.turns.scored, axis=1))
  assert np.bincount(kept // G).tolist() == [2, 2, 2, 2]
  want = dynamic.take(curated, jnp.asarray(kept))
  for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
    np.testing.assert_array_equal(x, y)
  links = batches.links('episode_return', 'center', 'scale')
  a, _ = chain.stream(links, got, {})
  total = np.where(record.valid, record.reward, 0).sum(1)[kept].reshape(4, 2)
  z = (total - total.mean(1, keepdims=True)) / total.std(
    1, ddof=1, keepdims=True
  )
  np.testing.assert_allclose(a.turn[:, 0], z.reshape(8), rtol=1e-4)
