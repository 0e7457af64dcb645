"""Edited conversations in rows: every sampled token once, behind its own."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.loss import reduce
from agentrl.rollout.edits import ARMS
from agentrl.types import Rows
from tests.rollout.compacted import COUNT, MODULE, params, segments
from tests.rollout.compaction_rows_test import alone, unfolded
from tests.rollout.edited import RULES, edits, played, rule

NIGHTLY = pytest.mark.slow, pytest.mark.nightly
ADVANTAGE = np.linspace(-1.0, 1.0, COUNT)


@jax.jit
def learn(rows):
  """-> the gradient of Σ w A log π, by DCPO's weights, and log π [N, T]."""

  def loss(p):
    logp = MODULE.apply(p, rows, ('logp',)).logp
    advantage = jnp.asarray(ADVANTAGE)[jnp.maximum(rows.traj, 0)]
    return jnp.sum(rows.weight * advantage * logp), logp

  return jax.grad(loss, has_aux=True)(params())


def weighted(rows):
  """The weights of DCPO: one for each trajectory, whatever its segments."""
  every = reduce.trajectory_mean(rows.weight, rows, COUNT, rows.tokens.shape[1])
  return rows.replace(weight=every)


@pytest.mark.slow
@pytest.mark.parametrize(
  'name', ['own', *(pytest.param(x, marks=NIGHTLY) for x in ARMS[1:])]
)
def test_every_sampled_token_stands_once_behind_its_own_context(name):
  """Log-probs of the sampler, of the packed rows, and of single contexts."""
  ended, record, rows = played(RULES[name])
  learned = np.asarray(learn(weighted(rows))[1])
  sampled = np.asarray(rows.sampled)
  np.testing.assert_allclose(
    learned[sampled], np.asarray(rows.logp)[sampled], atol=1e-5
  )
  assert sampled.sum() == record.message_len[record.valid].sum()
  assert (np.asarray(rows.weight) == sampled).all()
  for b, episode in enumerate(ended):
    for tokens, said in segments(episode):
      plain = alone(tokens)
      for k, place, size in said:
        mine = sampled[b] & (np.asarray(rows.turn[b]) == k)
        stands = np.asarray(rows.tokens[b])[mine].tolist()
        assert stands == tokens[place : place + size]
        np.testing.assert_allclose(
          learned[b][mine], plain[place - 1 : place - 1 + size], atol=1e-5
        )
  begun = [sum(x.branch for x in e.turns) for e in ended]
  assert (max(begun) == 0) == (name == 'ignored')
  assert name == 'ignored' or sum(begun) > COUNT


@pytest.mark.parametrize('name', ['own', pytest.param('window', marks=NIGHTLY)])
def test_the_gradient_is_of_the_single_contexts(name):
  """With a weight of one for a trajectory in rows and alone."""
  ended, _, packed = played(RULES[name])
  rows = weighted(packed)
  got, _ = learn(rows)
  single = unfolded(ended, False)
  sizes = np.array([sum(len(t.spoken.ids) for t in e.turns) for e in ended])
  of = np.asarray(single.traj)[:, 0]
  weight = np.asarray(single.weight) / (COUNT * sizes[of])[:, None]
  want, _ = learn(single.replace(weight=jnp.asarray(weight)))
  largest = max(float(jnp.abs(x).max()) for x in jax.tree.leaves(want))
  assert largest > 0
  for one, two in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
    np.testing.assert_allclose(one / largest, two / largest, atol=1e-5)
  whole = np.zeros(COUNT)
  held = np.asarray(rows.weight)
  np.add.at(whole, np.maximum(np.asarray(rows.traj), 0), held)
  np.testing.assert_allclose(whole, 1 / COUNT, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.nightly
def test_without_an_edit_it_is_the_whole_history():
  """Every array and the gradient, to the bit, where no message is a call."""
  ended, want, plain = played(alone=True)
  again, got, rows = played(rule(most=0), alone=True)
  assert not any(edits(e) for e in again)
  assert {e.status for e in again} == {e.status for e in ended}
  for field in dataclasses.fields(want):
    one, two = getattr(want, field.name), getattr(got, field.name)
    if field.name in ('context', 'context_span'):
      two = two[..., : one.shape[2]]
    if field.name == 'columns':
      assert not two.pop('edit').any()
      length = want.context_len + want.message_len
      before = np.cumsum(length, 1) - want.message_len
      np.testing.assert_array_equal(two.pop('read'), before * want.valid)
    if field.name in ('seg', 'state'):  # the latter is without numbers
      continue
    jax.tree.map(np.testing.assert_array_equal, one, two)
  assert not got.seg.any()
  for field in dataclasses.fields(Rows):
    one, two = (np.asarray(getattr(x, field.name)) for x in (plain, rows))
    np.testing.assert_array_equal(one, two)
  one, two = (learn(weighted(x)) for x in (plain, rows))
  jax.tree.map(np.testing.assert_array_equal, one, two)
