"""Earlier versions in the state, and the ages of what they sampled."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.rollout import stale
from agentrl.rollout.stale import Reads
from tests import batches, states

READS = Reads(roles=('policy',), memories=('pool',))


def state_of(s: int):
  """A state of version 0 with S earlier ones; `prm` is read by no rollout."""
  state = states.state(
    params={'policy': {'w': jnp.zeros(2)}, 'prm': {'w': jnp.ones(2)}},
    memory={'pool': jnp.zeros(3), 'replay': jnp.zeros(4)},
  )
  return stale.begin(state, READS, s)


def updated(state):
  """As learner.update: version v + 1 is w = v + 1, pool = -(v + 1)."""
  v = (state.step + 1).astype(jnp.float32)
  return state.replace(
    step=state.step + 1,
    params={**state.params, 'policy': {'w': v + jnp.zeros(2)}},
    memory={**state.memory, 'pool': -v + jnp.zeros(3)},
    past=stale.advance(state),
  )


@pytest.mark.parametrize('s', [1, 2, 4])
def test_the_oldest_is_s_versions_old(s):
  state, step = state_of(s), jax.jit(updated, donate_argnums=0)
  for n in range(7):
    old = stale.oldest(state)
    assert int(old.step) == max(0, n - s)
    np.testing.assert_array_equal(old.params['policy']['w'], max(0.0, n - s))
    np.testing.assert_array_equal(old.memory['pool'], -max(0.0, n - s))
    np.testing.assert_array_equal(old.params['prm']['w'], 1.0)
    assert old.memory['replay'].shape == (4,)
    for age in range(min(n, s) + 1):
      assert int(stale.at(state, age).step) == n - age
    state = step(state)


def test_without_staleness_the_oldest_is_the_state():
  state = state_of(0)
  assert state.past == () == stale.advance(state)
  assert stale.oldest(state).params is state.params
  assert stale.restart(state) is state


def test_what_is_held_is_what_rollouts_read():
  [only] = state_of(1).past
  assert set(only.params) == {'policy'}
  assert set(only.memory) == {'pool'}


def test_a_stage_begins_with_versions_of_its_own():
  state = updated(updated(state_of(2)))
  state = stale.restart(state)
  assert [int(x.step) for x in state.past] == [2, 2]
  for x in state.past:
    np.testing.assert_array_equal(x.params['policy']['w'], 2.0)


def test_ages_are_of_the_oldest_sampled_token():
  laid = batches.lay(batches.story(5), 'history', padding=1)
  batch = jax.tree.map(jnp.asarray, laid.batch)
  r = np.random.default_rng(0)
  rows = jax.tree.map(np.asarray, batch.rows)
  version = r.integers(3, 9, rows.tokens.shape)
  batch = batch.replace(
    rows=batch.rows.replace(version=jnp.asarray(version, jnp.int32))
  )
  expected = [
    max((9 - version[rows.sampled & (rows.traj == b)]).tolist(), default=0)
    for b in range(len(batch.outcome))
  ]
  aged, metrics = stale.aged(batch, 9)
  np.testing.assert_array_equal(aged.ids['age'], expected)
  assert metrics['rollout/age_max'][0] == max(expected)
  total, count = metrics['rollout/age']
  assert total == sum(expected)
  assert count == len(set(rows.traj[rows.sampled].tolist()))
  newest = [
    max((version[rows.sampled & (rows.traj == b)] - 9).tolist(), default=0)
    for b in range(len(batch.outcome))
  ]
  span = stale.spans(batch)['rollout/version_span']
  assert span == (sum(expected) + sum(newest), count)


def test_ages_of_several_policies_are_in_updates_of_their_own():
  s = batches.story(3)
  batch = jax.tree.map(jnp.asarray, batches.lay(s, 'history').batch)
  role = jnp.arange(len(batch.outcome)) % 2
  batch = batch.replace(
    ids={**batch.ids, 'role': role},
    rows=batch.rows.replace(version=jnp.full_like(batch.rows.version, 3)),
  )
  sampled = np.isfinite(stale.ages(batch, 3))
  got = stale.ages(batch, jnp.array([4, 7]))
  want = np.where(role == 0, 1, 4)
  np.testing.assert_array_equal(got[sampled], want[sampled])
  _, metrics = stale.aged(batch, jnp.array([4, 7]))
  assert metrics['rollout/age_max'][0] == 4
