"""Guided retries: who is attempted again, with what, and what it is charged."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.collect import retry
from agentrl.curate import select
from agentrl.rollout import record as record_lib
from agentrl.task.base import make_attempts
from agentrl.types import CollectInputs, Messages, Prefix, Span, Status
from tests.collect.collect_laws_test import K, played, score

B, G = 16, 4
# Group 0 fails, 1 has a success, 2 fails but for one that broke and says 1,
# and of 3 nobody counts.
OUTCOME = [0, 0.5, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1]
BROKEN = (9, 12, 13, 14, 15)
AGAIN = np.isin(np.arange(B) // G, (0, 2))


def attempts():
  turns = np.ones(B, np.int32)
  size = B, K, 2
  messages = Messages(np.ones(size, np.int32), np.full((B, K), 2, np.int32))
  made = make_attempts(np.arange(B), G, K, 1.0)
  made = made.replace(prefix=Prefix(turns, messages))
  return jax.tree.map(jnp.asarray, made)


def collect(attempts, key, how=retry.guided_retry):
  """What the sampler was asked for, and the batch."""
  asked = []

  def sample(attempts, key):
    asked.append((attempts, jax.random.key_data(key)))
    r = played(len(asked))
    status = np.where(np.isin(np.arange(B), BROKEN), Status.ENV_ERROR, 1)
    outcome, valid = np.asarray(OUTCOME, np.float32), np.ones((B, K), bool)
    if len(asked) == 2:
      status, outcome = np.full(B, Status.SOLVED), np.ones(B, np.float32)
    live = attempts.limit > 0
    first = jnp.arange(K)[None] < attempts.prefix.turns[:, None]
    span = jnp.where(first[..., None], Span.PREFIX, r.span)
    r = jax.tree.map(jnp.asarray, r).replace(
      status=jnp.asarray(status, jnp.int32),
      outcome=jnp.asarray(outcome),
      valid=valid & live[:, None],
      span=span.astype(jnp.int8),
    )
    batch = record_lib.batch(r, record_lib.per_turn(r), attempts, 0)
    return select.keep(batch, batch.status != Status.ENV_ERROR)

  batch = how(
    CollectInputs(sample=sample, score=score, attempts=attempts, key=key)
  )
  return asked, batch


@functools.cache
def collected():
  f = jax.jit(collect).lower(attempts(), jax.random.key(3))
  f = f.compile({'xla_backend_optimization_level': 0})
  return jax.device_get(f(attempts(), jax.random.key(3)))


def test_groups_that_failed_as_a_whole_are_guided_and_nobody_else():
  asked, batch = collected()
  (free, first), (guided, second) = asked
  assert not free.prefix.turns.any()
  assert (free.limit == K).all()
  np.testing.assert_array_equal(guided.limit, np.where(AGAIN, K, 0))
  np.testing.assert_array_equal(guided.prefix.turns, 1)
  assert first.tolist() != second.tolist()
  np.testing.assert_array_equal(batch.ids['prefix'], AGAIN.astype(int))
  want = np.where(AGAIN, 1, np.asarray(OUTCOME, np.float32))
  np.testing.assert_array_equal(batch.outcome, want)


def test_the_second_attempts_stand_where_the_first_ones_did():
  _, batch = collected()
  one, two = played(1), played(2)
  rows = batch.rows
  for i in range(B):
    r, forced = (two, 1) if AGAIN[i] else (one, 0)
    np.testing.assert_array_equal(batch.turns.terms['env'][i], r.reward[i])
    for k in range(K):
      said = (rows.traj == i) & (rows.turn == k)
      own = said & rows.sampled
      assert own.any() == (k >= forced)
      n = r.message_len[i, k]
      tokens = rows.tokens[own] if own.any() else rows.tokens[said]
      np.testing.assert_array_equal(tokens, r.message[i, k, :n])
      weight = rows.weight[said]
      broken = i in BROKEN and not AGAIN[i]
      assert set(weight) == {0.0 if broken or k < forced else 1.0}


def test_both_are_charged_and_only_the_first_say_how_hard_a_task_is():
  _, batch = collected()
  again, one, two = AGAIN, played(1), played(2)
  tokens = one.message_len.sum() + two.message_len[again, 1:].sum()
  assert batch.sampled == {
    'attempts': B + again.sum(),
    'env_steps': B * K + again.sum() * K,
    'tokens': tokens,
  }
  counts = batch.attempted['counts']
  assert not counts[B:].any()
  np.testing.assert_array_equal(counts[:B], ~np.isin(np.arange(B), BROKEN))
  np.testing.assert_array_equal(
    batch.attempted['task'], np.tile(np.arange(B), 2)
  )


@functools.cache
def hinted():
  made = attempts()
  made = made.replace(prefix=made.prefix.replace(turns=0 * made.prefix.turns))
  f = functools.partial(collect, how=retry.hinted_retry)
  f = jax.jit(f).lower(made, jax.random.key(3))
  f = f.compile({'xla_backend_optimization_level': 0})
  return jax.device_get(f(made, jax.random.key(3)))


def test_only_the_second_attempts_are_hinted():
  """And say nothing of how hard a task is; all of their tokens are trained."""
  asked, batch = hinted()
  (free, _), (again, _) = asked
  assert not free.hinted.any()
  assert again.hinted.all()
  np.testing.assert_array_equal(again.limit, np.where(AGAIN, K, 0))
  np.testing.assert_array_equal(batch.ids['hinted'], AGAIN)
  want = np.where(AGAIN, 1, np.asarray(OUTCOME, np.float32))
  np.testing.assert_array_equal(batch.outcome, want)
  assert not batch.attempted['counts'][B:].any()
  for i in np.flatnonzero(AGAIN):
    mine = (batch.rows.traj == i) & batch.rows.sampled
    assert set(batch.rows.weight[mine]) == {1.0}
    assert mine.sum() == played(2).message_len[i].sum()
