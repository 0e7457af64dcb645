"""Averages of roles against a loop in plain Python, read before written."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.advantage import baselines
from agentrl.memory import role_baseline
from agentrl.types import Credit, LinkInputs
from tests import batches

pytestmark = pytest.mark.usefixtures('float64')

DECAY = 0.8


def batch(seed):
  """A batch whose trajectories have roles, and rewards that differ."""
  laid = batches.lay(batches.story(seed), 'history').batch
  b, k = laid.turns.valid.shape
  rng = np.random.default_rng(seed)
  role = rng.integers(0, 2, b).astype(np.int32)
  turns = laid.turns.replace(
    agent=np.broadcast_to(role[:, None], (b, k)), reward=rng.normal(size=(b, k))
  )
  return jax.tree.map(jnp.asarray, laid.replace(turns=turns))


def counts(batch, i):
  valid, scored = (
    np.asarray(x)[i] for x in (batch.turns.valid, batch.turns.scored)
  )
  return valid.any() and scored[valid].all()


def reference(mean, batch):
  """What trajectories read, and the averages after the batch."""
  read, mean = [], list(mean)
  for i in range(batch.outcome.shape[0]):
    role = int(batch.turns.agent[i, 0])
    read.append(mean[role])
    if counts(batch, i):
      valid = np.asarray(batch.turns.valid)[i]
      total = float(np.asarray(batch.turns.reward)[i][valid].sum())
      mean[role] = DECAY * mean[role] + (1 - DECAY) * total
  return np.array(read), np.array(mean)


def test_averages_are_read_before_they_are_written():
  memory = role_baseline.role_baseline(decay=DECAY)
  read, write = jax.jit(memory.read), jax.jit(memory.write)
  state = memory.init(batch(0), 5)
  want, total = np.zeros(2), np.zeros(2, int)
  for seed in range(3):
    x = batch(seed)
    before, after = reference(want, x)
    same, signals = read(state, x, 0, jax.random.key(0))
    got = signals['role_baseline']
    assert got.shape == x.turns.valid.shape
    np.testing.assert_allclose(got[:, 0], before, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(got[:, :1] == got, True)
    assert same is not None
    state, want = write(state, x, None, 0), after
    np.testing.assert_allclose(state.mean, want, rtol=1e-12)
    total += np.bincount(
      [int(x.turns.agent[i, 0]) for i in range(len(before)) if counts(x, i)],
      minlength=2,
    )
  np.testing.assert_array_equal(state.count, total)
  measured = {k: float(v) for k, (v, _) in memory.measure(state).items()}
  np.testing.assert_allclose(list(measured.values()), want)


def test_a_return_does_not_move_what_it_is_compared_with():
  memory, x = role_baseline.role_baseline(decay=DECAY), batch(1)
  state = memory.init(x, 5)
  i = next(i for i in range(len(x.outcome)) if counts(x, i))
  other = x.turns.reward.at[i].add(10.0)
  moved = x.replace(turns=x.turns.replace(reward=other))
  read = jax.jit(memory.read)
  a, b = (
    np.asarray(read(state, y, 0, jax.random.key(0))[1]['role_baseline'][:, 0])
    for y in (x, moved)
  )
  np.testing.assert_array_equal(a[: i + 1], b[: i + 1])
  role = np.asarray(x.turns.agent[:, 0])
  later = (role == role[i]) & (np.arange(len(role)) > i)
  assert later.any()
  assert np.all(a[later] != b[later])
  np.testing.assert_array_equal(a[role != role[i]], b[role != role[i]])


def test_the_link_takes_the_baseline_off():
  x = batch(2)
  shape = x.turns.valid.shape
  value, b = np.random.default_rng(0).normal(size=(2, *shape))
  credit = Credit(
    turn=jnp.asarray(value),
    token=jnp.zeros_like(x.rows.logp),
    weight=x.rows.weight,
    target={},
  )
  signals = {'role_baseline': jnp.asarray(b)}
  inputs = LinkInputs(batch=x, credit=credit, signals=signals)
  linked, metrics = baselines.less_role_baseline(inputs)
  live = np.array([[counts(x, i)] for i in range(shape[0])])
  live = live & np.asarray(x.turns.valid)
  np.testing.assert_allclose(linked.turn, np.where(live, value - b, 0))
  assert live.any()
  assert not metrics
