"""Laws of every collect piece: who does not count, and what sampling took."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import agentrl.collect  # noqa: F401  registers its pieces
from agentrl import registry
from agentrl.curate import select
from agentrl.rollout import record as record_lib
from agentrl.task.fixed import attempts as make_attempts
from agentrl.types import SAMPLED, Status

B, G, K, C, M = 16, 4, 3, 2, 2
BROKEN = (2, 5, 8, 15)  # one of each group; 8 is one that others branch from
# Without them the second and the third group agree.
OUTCOME = [0, 1, 0, 1, 1, 0, 1, 1, 1, 0, 0, 0, 0, 1, 1, 0]
HP = {'branch': {'chance': 1.0}}
PIECES = registry.names('collect')


def played(kind, attempts, key):
  """Turns, messages and ends that depend on the task and the key only.

  Args:
    kind: 'broken', or 'without' those that broke
  """
  r = np.random.default_rng(int(jax.random.key_data(key)[-1]) % 1000)
  number = lambda *shape: r.normal(size=shape).astype(np.float32)  # noqa: E731
  token = lambda *shape: r.integers(1, 99, shape, dtype=np.int32)  # noqa: E731
  broken = np.isin(np.arange(B), BROKEN)
  valid = np.arange(K)[None] < 1 + np.arange(B)[:, None] % K
  reward = np.where(broken[:, None], 50, number(B, K))
  made = record_lib.Record(
    context=token(B, K, C),
    context_len=np.full((B, K), C, np.int32),
    message=token(B, K, M),
    message_len=r.integers(1, M + 1, (B, K), dtype=np.int32),
    span=np.zeros((B, K, M), np.int8),
    logp=-1 - np.abs(number(B, K, M)),
    entropy=np.abs(number(B, K)),
    action=np.zeros((B, K), np.int32),
    reward=reward.astype(np.float32),
    columns={},
    state=token(B, K),
    valid=valid & ~(broken[:, None] & (kind == 'without')),
    status=np.where(broken, Status.ENV_ERROR, Status.FAILED).astype(np.int32),
    outcome=np.asarray(OUTCOME, np.float32),
  )
  at = np.asarray(attempts.task)
  return jax.tree.map(lambda x: jnp.asarray(x[at]), made)


def score(batch):
  turns = batch.turns.replace(reward=batch.turns.terms['env'])
  return batch.replace(turns=turns)


def collected(name, kind):
  """The batch; and what the sampler itself counted: {SAMPLED: total}."""
  took = dict.fromkeys(SAMPLED, 0)

  def sample(attempts, key):
    made = played(kind, attempts, key)
    valid, own = np.asarray(made.valid), np.ones((len(attempts.task), K), bool)
    if attempts.prefix is not None:
      turns = np.asarray(attempts.prefix.turns)
      own = np.arange(K)[None] >= turns[:, None]
    took['attempts'] += len(attempts.task)
    took['env_steps'] += int(valid.sum())
    took['tokens'] += int((np.asarray(made.message_len) * (valid & own)).sum())
    batch = record_lib.batch(made, record_lib.per_turn(made), attempts, 0)
    return select.keep(batch, batch.status != Status.ENV_ERROR)

  attempts = make_attempts(np.arange(B), G, K, 1.0)
  f = registry.bind('collect', name, HP.get(name, {}))
  batch, _ = f(sample, score, attempts, (), (), jax.random.key(4))
  return jax.device_get(batch), took


@pytest.fixture(scope='module')
def found():
  return {
    (name, kind): collected(name, kind)
    for name in PIECES
    for kind in ('broken', 'without')
  }


@pytest.mark.parametrize('name', PIECES)
def test_who_does_not_count_is_as_if_not_there(name, found):
  got, want = (found[name, kind][0] for kind in ('broken', 'without'))
  task = got.ids['task']
  np.testing.assert_array_equal(task, want.ids['task'])
  broken = np.isin(task, BROKEN)
  assert broken.any()
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
  for kind in ('broken', 'without'):
    batch, took = found[name, kind]
    assert {k: int(x) for k, x in batch.sampled.items()} == took


def test_nobody_branches_from_who_does_not_count(found):
  batch, _ = found['branch', 'broken']
  assert batch.ids['branch'].any()
  node = batch.turns.node
  broken = np.isin(batch.ids['task'], BROKEN)
  shared = np.isin(node[~broken], node[broken])
  assert not shared.any()


def test_a_broken_companion_leaves_nothing_to_be_held_against(found):
  """Both sides break at the same tasks here; so take one side only."""
  calls = []

  def sample(attempts, key):
    kind = 'without'
    made = played(kind, attempts, key)
    broken = np.isin(np.arange(B), (1, 6)) & bool(calls)
    calls.append(1)
    status = np.where(broken, Status.ENV_ERROR, made.status)
    made = made.replace(status=jnp.asarray(status))
    batch = record_lib.batch(made, record_lib.per_turn(made), attempts, 0)
    return select.keep(batch, batch.status != Status.ENV_ERROR)

  attempts = make_attempts(np.arange(B), G, K, 1.0)
  f = registry.bind('collect', 'greedy_companion', {})
  batch, _ = f(sample, score, attempts, (), (), jax.random.key(4))
  gone = [1, 6, *BROKEN]
  assert not batch.turns.scored[gone].any()
  rest = np.setdiff1d(np.arange(B), gone)
  assert batch.turns.scored[rest].any(1).all()
  weight = np.asarray(batch.rows.weight)
  traj = np.asarray(batch.rows.traj)
  assert not weight[np.isin(traj, gone)].any()


def test_groups_stay_whole_around_who_does_not_count(found):
  """The first and the last group differ; the broken one keeps its place."""
  batch, _ = found['dynamic_sampling', 'broken']
  np.testing.assert_array_equal(batch.ids['group'], [0] * 4 + [3] * 4)
  np.testing.assert_array_equal(
    batch.turns.scored.any(1), ~np.isin(batch.ids['task'], BROKEN)
  )
