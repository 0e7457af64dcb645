"""Generalised advantage estimation.

  δ_t = r_t + γ V_{t+1} − V_t;   A_t = δ_t + γ λ A_{t+1}        (1506.02438)

V and A are 0 beyond the end: what was cut short is not bootstrapped.
"""

import chex
import jax.numpy as jnp

from agentrl import segment
from agentrl.types import Array


def gae_turns(
  reward: Array, value: Array, valid: Array, *, gamma: float, lam: float
) -> Array:
  """Returns A_k over valid turns of each trajectory, [B, K]; 0 elsewhere."""
  chex.assert_equal_shape([reward, value, valid])
  delta = reward + gamma * segment.next_turn(value, valid) - value
  return segment.accumulate_turns(delta, gamma * lam, valid)


def gae_match(
  reward: Array,
  value: Array,
  match: Array,
  moment: Array,
  valid: Array,
  *,
  gamma: float,
  lam: float,
) -> Array:
  """Computes A over the valid turns of each match, as played: [B, K].

  Args:
    reward, value: [B, K]
    match: [B] i32, equal for the trajectories of one match
    moment: [B, K], by which the turns of a match follow each other
    valid: [B, K] bool; 0 elsewhere
  """
  chex.assert_equal_shape([reward, value, moment, valid])

  def chain(follows, reward, value):
    after = jnp.where(follows, jnp.roll(value, -1), 0)
    delta = reward + gamma * after - value
    factor = jnp.where(follows, gamma * lam, 0.0)
    return segment.accumulate(delta[None], factor[None])[0]

  return segment.along_matches(chain, match, moment, valid, reward, value)


def gae_tokens(
  reward: Array,
  value: Array,
  mask: Array,
  traj: Array,
  turn: Array,
  valid: Array,
  *,
  gamma: float,
  lam: float,
) -> Array:
  """Returns A_t over a trajectory's masked tokens, whatever rows they are in.

  Args:
    reward, value, mask, traj, turn: [N, T]
    valid: [B, K] bool, turns that are followed by the next one
  """
  chex.assert_equal_shape([reward, value, mask, traj, turn])
  b, k = valid.shape
  index = segment.TurnIndex(traj, turn, b, k)
  delta = reward + gamma * segment.next_token(value, mask, index, valid) - value
  return segment.accumulate_tokens(delta, gamma * lam, mask, index, valid)
