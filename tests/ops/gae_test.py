"""Generalised advantages against plain recursions in float64."""

import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import ops

pytestmark = pytest.mark.usefixtures('float64')


R = np.random.default_rng(0)


def _loop(reward, value, gamma, lam):
  a, out = 0.0, []
  after = [*value[1:], 0.0]
  for r, v, v_next in zip(reward[::-1], value[::-1], after[::-1], strict=True):
    a = r + gamma * v_next - v + gamma * lam * a
    out.append(a)
  return out[::-1]


def test_turns():
  reward, value = R.normal(size=(2, 3, 4))
  valid = np.arange(4) < np.array([[4], [2], [1]])
  got = ops.gae_turns(
    *map(jnp.asarray, (reward, value, valid)), gamma=0.9, lam=0.7
  )
  for i, n in enumerate((4, 2, 1)):
    want = _loop(reward[i, :n], value[i, :n], 0.9, 0.7)
    np.testing.assert_allclose(got[i, :n], want, rtol=1e-12)
    assert not np.any(got[i, n:])


def test_turns_of_a_match_in_the_order_they_were_played():
  """Seats of two matches, mixed; some turns are not there."""
  match, k = np.array([7, 3, 7, 3, 7]), 4
  reward, value = R.normal(size=(2, 5, k))
  moment = np.zeros((5, k))
  for m in (3, 7):
    of = match == m
    moment[of] = R.permutation(of.sum() * k).reshape(-1, k)
  valid = R.random((5, k)) < 0.7
  args = map(jnp.asarray, (reward, value, match, moment, valid))
  got = np.asarray(ops.gae_match(*args, gamma=0.9, lam=0.7))
  for m in (3, 7):
    turns = np.argwhere(valid & (match == m)[:, None])
    at = tuple(np.array(sorted(turns, key=lambda x: moment[tuple(x)])).T)
    want = _loop(reward[at], value[at], 0.9, 0.7)
    np.testing.assert_allclose(got[at], want, rtol=1e-12)
  assert not np.any(got[~valid])


def test_a_match_of_one_is_a_trajectory():
  reward, value = map(jnp.asarray, R.normal(size=(2, 3, 4)))
  valid = jnp.asarray(np.arange(4) < np.array([[4], [0], [2]]))
  moment = jnp.broadcast_to(jnp.arange(4.0), (3, 4))
  hp = dict(gamma=0.9, lam=0.7)
  np.testing.assert_allclose(
    ops.gae_match(reward, value, jnp.arange(3), moment, valid, **hp),
    ops.gae_turns(reward, value, valid, **hp),
    rtol=1e-12,
  )


@pytest.mark.parametrize('follows', [True, False])
def test_tokens_of_a_trajectory_in_two_rows(follows):
  """The answer between two messages is passed over; or ends the trace."""
  turn = np.array([[0, 0, 0, -1], [0, 1, 1, 1]])
  mask = np.array([[1, 1, 0, 0], [0, 1, 1, 1]], bool)
  traj = np.where(turn >= 0, 0, -1)
  reward, value = R.normal(size=(2, 2, 4))
  args = map(jnp.asarray, (reward, value, mask, traj, turn))
  valid = jnp.full((1, 2), follows)
  got = np.asarray(ops.gae_tokens(*args, valid, gamma=0.9, lam=0.7))[mask]
  r, v = reward[mask], value[mask]
  parts = [slice(0, 5)] if follows else [slice(0, 2), slice(2, 5)]
  want = np.concatenate([_loop(r[x], v[x], 0.9, 0.7) for x in parts])
  np.testing.assert_allclose(got, want, rtol=1e-12)
