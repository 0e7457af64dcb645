"""Laws of every collect piece: who does not count, and what sampling took."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import agentrl.collect  # noqa: F401  registers its pieces
from agentrl import registry
from agentrl.curate import select
from agentrl.rollout import record as record_lib
from agentrl.task.base import make_attempts
from agentrl.types import SAMPLED, CollectInputs, NewestPolicy, Status

B, G, K, C, M = 16, 4, 3, 2, 2
BROKEN = (2, 5, 8, 15)  # one of each group
# Without them the second and the third group agree.
OUTCOME = [0, 1, 0, 1, 1, 0, 1, 1, 1, 0, 0, 0, 0, 1, 1, 0]
COMPANIONS = (1, 6)
HP = {
  'branch': {'chance': 1.0},
  'candidates': {'by': 'calls'},
  'tree_search': {'rounds': 2},
}
COLUMNS = ('calls', 'faults', 'answers')  # of worlds of tools
PIECES = registry.names('collect')
# Keeps two of the three members of each group that count, and nobody else.
NONE_LEFT = ('resample_contrastive',)


def played(seed):
  """Turns and messages of all tasks, some of whose worlds broke."""
  r = np.random.default_rng(seed)
  number = lambda *shape: r.normal(size=shape).astype(np.float32)  # noqa: E731
  token = lambda *shape: r.integers(1, 99, shape, dtype=np.int32)  # noqa: E731
  broken = np.isin(np.arange(B), BROKEN)
  reward = np.where(broken[:, None], 50, number(B, K))
  return record_lib.Record(
    context=token(B, K, C),
    context_len=np.full((B, K), C, np.int32),
    message=token(B, K, M),
    message_len=r.integers(1, M + 1, (B, K), dtype=np.int32),
    span=np.zeros((B, K, M), np.int8),
    logp=-1 - np.abs(number(B, K, M)),
    entropy=np.abs(number(B, K)),
    action=np.zeros((B, K), np.int32),
    reward=reward.astype(np.float32),
    columns={name: token(B, K).astype(np.float32) for name in COLUMNS},
    state=token(B, K),
    valid=np.arange(K)[None] < 1 + np.arange(B)[:, None] % K,
    status=np.where(broken, Status.ENV_ERROR, Status.FAILED).astype(np.int32),
    outcome=np.asarray(OUTCOME, np.float32),
  )


def score(batch):
  turns = batch.turns.replace(reward=batch.turns.terms['env'])
  return batch.replace(turns=turns)


def collect(name, records):
  """The batch; and what the sampler itself counted, {SAMPLED: total}.

  Args:
    records: what the first call of the sampler gives, and the later ones
  """
  took, left = dict.fromkeys(SAMPLED, 0), list(records)

  def sample(attempts, key):
    now = left.pop(0) if len(left) > 1 else left[0]
    made = jax.tree.map(lambda x: x[attempts.task], now)
    live = attempts.limit > 0
    made = made.replace(valid=made.valid & live[:, None])
    own = made.valid
    if attempts.prefix is not None:
      turns, begun = attempts.prefix.turns, attempts.prefix.messages.tokens
      own &= jnp.arange(K)[None] >= turns[:, None]
      if begun is not None:
        first = jnp.arange(K)[None] == turns[:, None]
        took['tokens'] -= jnp.sum(jnp.where(own & first, begun[:, None], 0))
    took['attempts'] += jnp.sum(live)
    took['env_steps'] += jnp.sum(made.valid)
    took['tokens'] += jnp.sum(made.message_len * own)
    batch = record_lib.batch(made, record_lib.per_turn(made), attempts, 0)
    return select.keep(batch, batch.status != Status.ENV_ERROR)

  def read(rows):
    noise = jax.random.normal(jax.random.key(6), rows.logp.shape)
    return rows.logp + 0.1 * noise, jnp.abs(noise)

  attempts = make_attempts(np.arange(B), G, K, 1.0)
  attempts = jax.tree.map(jnp.asarray, attempts)
  f = registry.bind('collect', name, HP.get(name, {}))
  batch = f(
    CollectInputs(
      sample=sample,
      score=score,
      attempts=attempts,
      key=jax.random.key(4),
      newest=NewestPolicy(sample, read),
    )
  )
  return batch, took


BOTH = played(0), played(1)


def without(record):
  """Nothing stands where worlds broke."""
  there = ~np.isin(np.arange(B), BROKEN)
  return dataclasses.replace(record, valid=record.valid & there[:, None])


def half_broken():
  """The first call is without broken worlds, in the second two others broke."""
  status = BOTH[1].status.copy()
  status[list(COMPANIONS)] = Status.ENV_ERROR
  return without(BOTH[0]), dataclasses.replace(BOTH[1], status=status)


@pytest.fixture(scope='module')
def found():
  """By piece and case, compiled once for each piece."""
  cases = {
    'broken': BOTH,
    'without': tuple(map(without, BOTH)),
    'half': half_broken(),
  }
  out = {}
  for name in PIECES:
    f = jax.jit(functools.partial(collect, name)).lower(BOTH)
    f = f.compile({'xla_backend_optimization_level': 0})
    out |= {(name, k): jax.device_get(f(x)) for k, x in cases.items()}
  return out


@pytest.mark.parametrize('name', PIECES)
def test_who_does_not_count_is_as_if_not_there(name, found):
  got, want = (found[name, kind][0] for kind in ('broken', 'without'))
  task = got.ids['task']
  np.testing.assert_array_equal(task, want.ids['task'])
  broken = np.isin(task, BROKEN)
  assert broken.any() or name in NONE_LEFT
  assert not got.turns.scored[broken].any()
  traj = got.rows.traj
  theirs = (traj >= 0) & broken[traj]
  assert not got.rows.weight[theirs].any()
  assert got.rows.weight[~theirs].any()
  np.testing.assert_array_equal(
    np.where(theirs, 0, got.rows.weight), want.rows.weight
  )
  for x, y in zip(
    jax.tree.leaves((got.turns, got.ids, got.outcome)),
    jax.tree.leaves((want.turns, want.ids, want.outcome)),
    strict=True,
  ):
    np.testing.assert_array_equal(x[~broken], y[~broken])


@pytest.mark.parametrize('name', PIECES)
def test_what_was_sampled_is_counted(name, found):
  """With what was thrown away, and without what was only said again."""
  for kind in ('broken', 'without', 'half'):
    batch, took = found[name, kind]
    assert batch.sampled == took


def test_nobody_branches_from_who_does_not_count(found):
  batch, _ = found['branch', 'broken']
  assert batch.ids['branch'].any()
  node, task = batch.turns.node, batch.ids['task']
  first = np.isin(task, BROKEN) & (
    task % 2 == 0
  )  # every other is sampled first
  assert first.any()
  assert not np.isin(node[~first], node[first]).any()


def test_a_broken_companion_leaves_nothing_to_be_held_against(found):
  batch, _ = found['greedy_companion', 'half']
  gone = np.isin(np.arange(B), (*COMPANIONS, *BROKEN))
  np.testing.assert_array_equal(batch.turns.scored.any(1), ~gone)
  assert not batch.rows.weight[gone[batch.rows.traj]].any()


def test_groups_stay_whole_around_who_does_not_count(found):
  """The first and the last group differ; who broke keeps its place."""
  batch, _ = found['dynamic_sampling', 'broken']
  np.testing.assert_array_equal(batch.ids['group'], [0] * 4 + [3] * 4)
  np.testing.assert_array_equal(
    batch.turns.scored.any(1), ~np.isin(batch.ids['task'], BROKEN)
  )
