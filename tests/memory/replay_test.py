"""The pool against a list: what enters, what comes back, what it is worth."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import agentrl.loss  # noqa: F401  registers the losses
from agentrl import mesh, registry
from agentrl.advantage import chain
from agentrl.memory import replay
from tests import batches, errors
from tests.memory.sampled import STORIES, B, back
from tests.memory.sampled import batch as batch_of

pytestmark = pytest.mark.usefixtures('float64')

CAPACITY, AGE, HISTORY = 6, 2, 6


@functools.cache
def _memory(n=CAPACITY, capacity=CAPACITY, name='replay'):
  """The memory, compiled once for all tests."""
  hp = {'capacity': capacity, 'n': n, 'age': AGE, 'history': HISTORY}
  m = registry.bind('memory', name, hp)()
  return m._replace(read=jax.jit(m.read), write=jax.jit(m.write))


GOOD = [[1, 4, 9], [0, 2, 3, 7], [5], [2, 6, 8]]  # what has A > 0 at each step


def _credit(batch, step):
  sign = np.full(batch.outcome.shape[0], -1.0)
  sign[GOOD[step]] = 1.0
  sign[B:] = 1.0  # what was replayed does not enter twice
  turn = jnp.asarray(sign)[:, None] * jnp.where(batch.turns.valid, 0.5, 0)
  return chain.zero(batch).replace(turn=turn)


def _live(through, now):
  """Task ids of the pool after step `through`, as seen at step `now`."""
  ring = [None] * CAPACITY
  at = 0
  for step in range(through + 1):
    for i in GOOD[step]:
      ring[at % CAPACITY] = (B * step + i, step)
      at += 1
  return {task for task, born in filter(None, ring) if now - born <= AGE}


@functools.cache
def _play(steps, capacity=CAPACITY):
  """Reads and writes of so many steps; the pool and the last grown batch."""
  m = _memory(n=min(CAPACITY, capacity), capacity=capacity)
  pool = m.init(batch_of(0), 0)
  for step in range(steps):
    batch, told = m.read(pool, batch_of(step), step, jax.random.key(step))
    pool = m.write(pool, batch, _credit(batch, step), step)
  return pool, batch, told


def test_an_empty_pool_adds_padding():
  m = _memory()
  plain = batch_of(0)
  batch, told = m.read(m.init(plain, 0), plain, 0, jax.random.key(0))
  rows = jax.tree.map(lambda x: np.asarray(x[B:]), batch.rows)
  assert (rows.traj == -1).all()
  assert (rows.turn == -1).all()
  assert (rows.seg == -1).all()
  assert not rows.sampled.any()
  assert not rows.weight.any()
  assert not rows.logp.any()
  assert not batch.turns.valid[B:].any()
  assert not np.asarray(told['replay.advantage']).any()
  jax.tree.map(
    lambda x, y: np.testing.assert_array_equal(x[:B], y), batch.rows, plain.rows
  )


def test_what_went_well_comes_back_while_it_is_young():
  """n is the capacity: everything alive comes back, once each."""
  m = _memory()
  pool, _, _ = _play(4)
  for now in (4, 5, 6):
    batch, _ = m.read(pool, batch_of(0), now, jax.random.key(9))
    assert sorted(back(batch)) == sorted(_live(3, now))
    born = np.asarray(batch.ids['task'][B:]) // B
    real = np.asarray(batch.turns.valid[B:].any(1))
    np.testing.assert_array_equal(
      np.asarray(batch.ids['age'][B:])[real], (now - born)[real]
    )
  assert len(_live(3, 3)) < sum(map(len, GOOD[1:]))  # overwritten
  assert not _live(3, 6)


def test_n_different_ones_by_luck():
  m = _memory(n=3)
  pool, _, _ = _play(2)
  seen = []
  for seed in range(5):
    came = back(m.read(pool, batch_of(0), 2, jax.random.key(seed))[0])
    assert len(set(came)) == 3
    assert set(came) <= _live(1, 2)
    seen.append(tuple(came))
  assert len(set(seen)) > 1


def test_a_replayed_trajectory_is_as_it_was():
  m = _memory(n=3)
  pool, _, _ = _play(1)
  batch, _ = m.read(pool, batch_of(1), 1, jax.random.key(0))
  was = batch_of(0)
  for place, task in enumerate(back(batch), start=B):
    rows = jax.tree.map(lambda x, place=place: np.asarray(x[place]), batch.rows)
    old = jax.tree.map(lambda x, task=task: np.asarray(x[task]), was.rows)
    assert (rows.traj[rows.seg >= 0] == place).all()
    for name in ('tokens', 'seg', 'turn', 'sampled', 'weight', 'logp', 'span'):
      np.testing.assert_array_equal(vars(rows)[name], vars(old)[name])
    np.testing.assert_array_equal(
      batch.turns.reward[place], was.turns.reward[task]
    )
    assert float(batch.outcome[place]) == float(was.outcome[task])
  ids = {k: np.asarray(x[B:]) for k, x in batch.ids.items()}
  np.testing.assert_array_equal(ids['source'], 1)
  assert len(set(ids['group']) - set(np.asarray(batch.ids['group'][:B]))) == 3
  assert len(np.unique(batch.turns.node)) == batch.turns.node.size


def test_more_than_there_is_room_for():
  """The first ones stay, and nothing is written twice."""
  pool, _, _ = _play(2, capacity=3)
  assert sorted(np.asarray(pool.trajectories.ids['task'])) == [10, 12, 13]
  assert int(pool.next) == 0


def test_the_released_pool_waits_until_it_is_full_and_is_emptied():
  """Of 3, 4, 1 and 3 that go well each step, into a pool of six.

  Two of step 0 make room at step 1 for those that come; the pool is full at
  step 2, when n of it come back, and holds what step 2 adds afterwards.
  """
  m = _memory(n=2, name='replay_when_full')
  pool, seen = m.init(batch_of(0), 0), []
  for step in range(4):
    grown, told = m.read(pool, batch_of(step), step, jax.random.key(step))
    seen.append(back(grown))
    pool = m.write(pool, grown, _credit(grown, step), step)
    assert np.any(told['replay.advantage']) == bool(seen[-1])
  assert [len(x) for x in seen] == [0, 0, 2, 0]
  assert set(seen[2]) <= _live(1, 2)
  held = np.asarray(pool.trajectories.ids['task'])[np.asarray(pool.born) >= 0]
  assert sorted(held) == [25, 32, 36, 38]  # of steps 2 and 3
  # Six are held and one is too old: not full.
  pool, _, _ = _play(2)
  assert back(m.read(pool, batch_of(3), 2, jax.random.key(0))[0])
  assert not back(m.read(pool, batch_of(3), 3, jax.random.key(0))[0])


def _means(step):
  s = STORIES[step]
  totals = [sum(x) for x in s.reward]
  return [
    np.mean([t for t, g in zip(totals, s.group, strict=True) if g == of])
    for of in dict.fromkeys(s.group)
  ]


@pytest.mark.parametrize('steps', [1, 2, 3])
def test_worth_is_return_less_the_median_of_past_groups(steps):
  """Four groups a step, a history of six: the oldest means are gone."""
  m = _memory()
  pool, _, _ = _play(steps)
  past = [x for step in range(steps) for x in _means(step)]
  want = np.median(past[-HISTORY:])
  assert float(replay.median(pool)) == pytest.approx(want)
  batch, told = m.read(pool, batch_of(3), steps, jax.random.key(0))
  worth = np.asarray(told['replay.advantage'])
  assert not worth[:B].any()
  for place in range(B, B + CAPACITY):
    valid = np.asarray(batch.turns.valid[place])
    task = int(batch.ids['task'][place])
    total = sum(STORIES[task // B].reward[task % B]) - want
    np.testing.assert_allclose(worth[place], np.where(valid, total, 0))
  assert worth.any()


def test_median_of_nothing_is_zero():
  m = _memory()
  assert float(replay.median(m.init(batch_of(0), 0))) == 0


def test_on_an_explicit_mesh():
  m = _memory()
  want = _play(2)
  shape = batch_of(0).rows.traj.shape
  with jax.set_mesh(mesh.make({'fsdp': 2, 'tensor': 2})):
    read, write = (jax.jit(f.__wrapped__) for f in (m.read, m.write))
    pool = jax.device_put(m.init(batch_of(0), 0), jax.P())
    for step in range(2):
      batch, told = read(
        pool, batches.place(batch_of(step), shape), step, jax.random.key(step)
      )
      pool = write(pool, batch, _credit(batch, step), step)
  jax.tree.map(np.testing.assert_array_equal, (pool, batch, told), want)


def test_what_cannot_be_replayed_is_refused():
  batch = batch_of(0)
  with errors.raises(ValueError, 'readings'):
    _memory().init(batch.replace(readings={'hint': batch.rows}), 0)
  rows = jax.tree.map(lambda x: x[:7], batch.rows)
  with errors.raises(ValueError, '7 rows 10'):
    _memory().init(batch.replace(rows=rows), 0)
  with errors.raises(ValueError, 'n 4 3'):
    _memory(n=4, capacity=3)
