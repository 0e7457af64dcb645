"""Losses of implicit PRMs on whole trajectories, solved or failed.

Trajectories that do not count (`counting`) are neither.
"""

from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp

from agentrl import ops
from agentrl.domain import OneOf
from agentrl.ops import counting
from agentrl.types import Batch

PAIRINGS = ('all_pairs', 'one_to_one', 'by_time')
LOSSES = ('pairs', 'cross_entropy', 'detached', 'bon_outcome', 'bon_score')
SOLVED = 0.5  # outcomes above this are successes


def objective(loss: str, pairing: str, trajectory: str) -> Callable:
  """Makes (step rewards [B, K], batch) -> (loss, metrics) by name."""
  OneOf(*LOSSES).check('implicit PRM: loss', loss)
  OneOf(*PAIRINGS).check('implicit PRM: pairing', pairing)
  OneOf('sum', 'mean').check('implicit PRM: trajectory', trajectory)

  def f(step, batch: Batch):
    q = trajectory_score(step, batch.turns.valid, trajectory)
    weight = pair_weights(batch, pairing)
    metrics = {'pair_accuracy': ops.pair_accuracy(q, weight)}
    metrics['pairs'] = (jnp.sum(weight), jnp.ones(()))
    if loss == 'pairs':
      return ops.pair_loss(q, weight), metrics
    if loss == 'cross_entropy':
      return cross_entropy(q, batch), metrics
    weight = {
      'detached': _live,
      'bon_outcome': lambda batch: best_of_n(batch.outcome, batch),
      'bon_score': lambda batch: best_of_n(q, batch),
    }[loss](batch)
    return detached_loss(q, batch, weight), metrics

  return f


def trajectory_score(step, valid, how: str):
  """Computes Q(tau) [B]: sum or mean of step rewards over valid turns."""
  total = jnp.sum(jnp.where(valid, step, 0), axis=1)
  count = jnp.maximum(jnp.sum(valid, axis=1), 1)
  return total / count if how == 'mean' else total


def pair_weights(batch: Batch, pairing: str = 'all_pairs'):
  """Weights pairs [B, B]: 1 where i solved and j failed a group's task.

  one_to_one pairs the r-th success with the r-th failure of each group, in
  index order. by_time adds pairs of successes where i took fewer turns: the
  order of γ^turns for a success and 0 for a failure, γ < 1.
  """
  live = _live(batch) > 0
  solved = live & (batch.outcome > SOLVED)
  failed = live & ~solved
  group = batch.ids['group']
  same = group[:, None] == group[None]
  pairs = same & solved[:, None] & failed[None]
  if pairing == 'one_to_one':
    before = jnp.tril(jnp.ones_like(same), -1) & same
    rank = lambda x: jnp.sum(before & x[None], axis=1)  # noqa: E731
    pairs &= rank(solved)[:, None] == rank(failed)[None]
  if pairing == 'by_time':
    turns = jnp.sum(batch.turns.valid, axis=1)
    sooner = turns[:, None] < turns[None]
    pairs |= same & sooner & solved[:, None] & solved[None]
  return pairs.astype(jnp.float32)


def cross_entropy(q, batch: Batch):
  """Computes PRIME's mean BCE(sigmoid(Q), outcome in [0, 1])."""
  live = _live(batch)
  y = jnp.clip(batch.outcome, 0, 1)
  each = -y * jax.nn.log_sigmoid(q) - (1 - y) * jax.nn.log_sigmoid(-q)
  return jnp.sum(live * each) / jnp.maximum(jnp.sum(live), 1)


def detached_loss(q, batch: Batch, weight):
  """Computes PRIME's dpo: Q against the detached mean of the others.

  −log σ(s_i (Q_i − m_i)), mean over trajectories by weight [B]; s_i is 1 for a
  success, whose m_i is the mean Q of its group's trajectories of lower
  outcome, and −1 for a failure, of higher outcome; 0 if there are none.
  m is not differentiated (2502.01456, released code).
  """
  chex.assert_equal_shape([q, batch.outcome, weight])
  better = _above(batch.outcome)
  solved = batch.outcome > SOLVED
  others = _mates(batch) & jnp.where(solved[:, None], better, better.T)
  count = jnp.sum(others, axis=1)
  still = jax.lax.stop_gradient(q)[None]
  mean = jnp.sum(jnp.where(others, still, 0), axis=1) / jnp.maximum(count, 1)
  each = -jax.nn.log_sigmoid(jnp.where(solved, 1, -1) * (q - mean))
  live = _live(batch)
  return jnp.sum(live * weight * each) / jnp.maximum(jnp.sum(live), 1)


def best_of_n(x, batch: Batch):
  """Computes weights n (share of the group that x_i reaches)^(n − 1): [B].

  The ratio of i being the best of n to being drawn; n is the group size, x [B]
  an outcome or a score, not differentiated.
  """
  x, mates = jax.lax.stop_gradient(x), _mates(batch)
  n = jnp.maximum(jnp.sum(mates, axis=1), 1).astype(x.dtype)
  share = jnp.sum(mates & ~_above(x).T, axis=1) / n
  return n * share ** (n - 1)


def _above(x):
  """Returns [B, B] bool: x_i exceeds x_j by more than rounding."""
  size = jnp.maximum(jnp.abs(x)[:, None], jnp.abs(x)[None])
  return x[:, None] - x[None] > ops.rounding(size)


def _live(batch: Batch):
  """Returns 1 for a trajectory that counts, else 0: [B] f32."""
  return counting.trajectories(batch).astype(jnp.float32)


def _mates(batch: Batch):
  """Marks counted pairs within a group, i = j included: [B, B] bool."""
  live, group = _live(batch) > 0, batch.ids['group']
  return (group[:, None] == group[None]) & live[None] & live[:, None]
