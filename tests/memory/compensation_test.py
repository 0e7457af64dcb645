"""The queue of what was put off, against a list."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import mesh, registry
from agentrl.advantage import chain
from agentrl.memory import compensation
from tests import batches, errors
from tests.memory.sampled import B, back
from tests.memory.sampled import batch as batch_of

pytestmark = pytest.mark.usefixtures('float64')

CAPACITY, N = 6, 4
PUT_OFF = [[1, 4, 9], [0, 2, 3, 7], [5], [2, 6, 8]]


@functools.cache
def memory(chance=1.0):
  hp = dict(capacity=CAPACITY, n=N, chance=chance)
  m = registry.bind('memory', 'compensation', hp)()
  return m._replace(read=jax.jit(m.read), write=jax.jit(m.write))


def credit(batch, step):
  """Tokens of trajectory i have A = i + 100 step + their column / 100."""
  zero = chain.zero(batch)
  turn = jnp.arange(zero.turn.shape[0])[:, None] + 100.0 * step
  column = jnp.arange(zero.token.shape[1]) / 100
  off = np.isin(np.asarray(batch.rows.traj), PUT_OFF[step])
  return zero.replace(
    turn=turn * batch.turns.valid,
    token=jnp.broadcast_to(column, zero.token.shape),
    weight=jnp.where(off, 0, zero.weight),
  )


def play(m, steps):
  """The state after so many steps, and who came back in each of them."""
  state, came = m.init(batch_of(0), 0), []
  for step in range(steps):
    grown, _ = m.read(state, batch_of(step), step, jax.random.key(step))
    came.append(back(grown))
    state = m.write(state, grown, credit(grown, step), step)
  return state, came


def waiting(state):
  at = (int(state.first) + np.arange(int(state.count))) % CAPACITY
  return np.asarray(state.trajectories.ids['task'])[at].tolist()


def test_first_in_first_out_and_only_as_many_as_a_batch():
  """3 wait after step 0, and 7 after step 1: the oldest makes room."""
  state, came = play(memory(), 2)
  assert came == [[], []]
  assert waiting(state) == [4, 9, 10, 12, 13, 17]
  assert int(state.lost) == 1
  state, came = play(memory(), 4)
  assert came == [[], [], [4, 9, 10, 12], []]
  assert waiting(state) == [13, 17, 25, 32, 36, 38]
  assert int(state.lost) == 1
  told = compensation.measure(state)
  assert told['compensation/waiting'] == (6, 1)
  assert told['compensation/lost'] == (1, 1)


def test_with_no_chance_all_wait(monkeypatch):
  monkeypatch.setattr(jax.random, 'uniform', lambda key: 0.0)  # the lowest
  state, came = play(memory(0.0), 3)
  assert came == [[], [], []]
  assert waiting(state) == [9, 10, 12, 13, 17, 25]
  assert int(state.lost) == 2


def test_what_comes_back_has_the_advantage_of_when_it_was_put_off():
  m = memory()
  state, _ = play(m, 2)
  grown, told = m.read(state, batch_of(2), 2, jax.random.key(2))
  a = told['compensation.advantage']
  assert a.shape == grown.rows.logp.shape
  assert not np.asarray(a)[:B].any()
  for place, task in enumerate([4, 9, 10, 12], start=B):
    step, i = divmod(task, B)
    was = batch_of(step)
    want = chain.token_advantage(credit(was, step), was.rows)[i]
    np.testing.assert_array_equal(a[place], want)
    assert np.any(want)
    for name in ('tokens', 'logp', 'weight', 'sampled', 'turn'):
      np.testing.assert_array_equal(
        vars(grown.rows)[name][place], vars(was.rows)[name][i]
      )
    assert int(grown.ids['age'][place]) == 2 - step
  group = np.asarray(grown.ids['group'])
  assert len(set(group[B:].tolist()) - set(group[:B].tolist())) == N


def test_who_was_not_scored_or_has_no_weight_does_not_wait():
  batch = batch_of(0)
  scored = batch.turns.scored.at[4].set(False)
  weight = jnp.where(batch.rows.traj == 9, 0, batch.rows.weight)
  batch = batch.replace(
    rows=batch.rows.replace(weight=weight),
    turns=batch.turns.replace(scored=scored),
  )
  off = compensation.put_off(batch, credit(batch, 0))
  assert np.flatnonzero(off).tolist() == [1]


def test_on_an_explicit_mesh():
  m = memory()
  state, _ = play(m, 2)
  want = m.read(state, batch_of(2), 2, jax.random.key(0))
  written = m.write(state, want[0], credit(want[0], 2), 2)
  shape = batch_of(2).rows.traj.shape
  with jax.set_mesh(mesh.make({'fsdp': 2, 'tensor': 2})):
    read, write = (jax.jit(f.__wrapped__) for f in (m.read, m.write))
    put = jax.device_put(state, jax.P())
    got = read(put, batches.place(batch_of(2), shape), 2, jax.random.key(0))
    after = write(put, got[0], credit(got[0], 2), 2)
  jax.tree.map(np.testing.assert_array_equal, (got, after), (want, written))


def test_more_than_there_is_room_for_does_not_come_back():
  hp = dict(capacity=3, n=4, chance=1.0)
  with errors.raises(ValueError, 'n 3 4'):
    registry.bind('memory', 'compensation', hp)()
