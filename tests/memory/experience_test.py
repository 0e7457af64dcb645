"""Experience replay against lists: who enters, who is drawn, and its weight."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import mesh, registry
from agentrl.advantage import chain
from agentrl.memory import experience
from tests import batches
from tests.memory.sampled import B, back
from tests.memory.sampled import batch as batch_of

pytestmark = pytest.mark.usefixtures('float64')

CAPACITY, AGE = 24, 1


@functools.cache
def memory(n, alpha=0.0, beta=0.0):
  hp = dict(capacity=CAPACITY, n=n, age=AGE, alpha=alpha, beta=beta)
  m = registry.bind('memory', 'experience_replay', hp)()
  return m._replace(read=jax.jit(m.read), write=jax.jit(m.write))


def credit(batch, step):
  """|A| of trajectory i is i + 1 + step, of either sign; 0 for the last."""
  size = np.arange(batch.outcome.shape[0]) + 1.0 + step
  size = np.where(np.arange(size.size) == B - 1, 0, size)
  sign = np.where(np.arange(size.size) % 2, 1, -1)
  turn = jnp.asarray(size * sign)[:, None] * batch.turns.valid
  return chain.zero(batch).replace(turn=turn)


def play(m, steps):
  state = m.init(batch_of(0), 0)
  for step in range(steps):
    batch, _ = m.read(state, batch_of(step), step, jax.random.key(step))
    state = m.write(state, batch, credit(batch, step), step)
  return state


@pytest.mark.slow
def test_all_that_was_sampled_comes_back_while_it_is_young():
  m = memory(CAPACITY)
  state = play(m, 2)
  for now, steps in ((2, (1,)), (3, ())):
    grown, told = m.read(state, batch_of(0), now, jax.random.key(9))
    want = [B * step + i for step in steps for i in range(B)]
    assert sorted(back(grown)) == want
    assert told == {}
    traj = np.asarray(grown.rows.traj)
    assert (np.asarray(grown.rows.weight)[traj < 0] == 0).all()
  # The ring of 24 holds 14 of steps 0 and 1, and 10 of step 2.
  state = m.write(state, batch_of(2), credit(batch_of(2), 2), 2)
  held = set(np.asarray(state.trajectories.ids['task']).tolist())
  assert held == set(range(6, 30))
  grown, _ = m.read(state, batch_of(3), 2, jax.random.key(9))
  assert sorted(back(grown)) == list(range(10, 30))
  age = dict(
    zip(back(grown), np.asarray(grown.ids['age'][B:]).tolist(), strict=False)
  )
  assert {age[10], age[25]} == {1, 0}


def test_what_comes_back_does_not_enter_again_but_has_its_priority_of_now():
  m = memory(6)
  state = play(m, 1)
  want = [i + 1.0 for i in range(B)]
  want[-1] = experience.LEAST
  np.testing.assert_allclose(state.priority[:B], want)
  grown, _ = m.read(state, batch_of(1), 1, jax.random.key(3))
  came = back(grown)
  after = m.write(state, grown, credit(grown, 1), 1)
  for place, task in enumerate(came, start=B):
    want[task] = place + 1.0 + 1
  now = [i + 2.0 for i in range(B)]
  now[-1] = experience.LEAST
  np.testing.assert_allclose(after.priority[: 2 * B], want + now)
  assert int(after.next) == 2 * B
  assert (np.asarray(after.born[2 * B :]) == -1).all()


def reference(priority, live, noise, n, alpha, beta):
  """Slots by log P + noise, largest first, and (N P)^-beta by its maximum."""
  p = {i: priority[i] ** alpha for i in range(len(priority)) if live[i]}
  p = {i: x / sum(p.values()) for i, x in p.items()}
  order = sorted(p, key=lambda i: -(np.log(p[i]) + noise[i]))[:n]
  w = [(len(p) * p[i]) ** -beta for i in order]
  return order, [x / max(w) for x in w]


@pytest.mark.parametrize(
  ('alpha', 'beta'), [(0.0, 1.0), (0.6, 0.4), (1.0, 1.0)]
)
@pytest.mark.parametrize('count', [0, 3, 24])
def test_slots_are_drawn_by_priority_and_weigh_by_its_inverse(
  alpha, beta, count
):
  """Ragged: fewer live than are drawn, none, all."""
  r = np.random.default_rng(count)
  born = np.full(CAPACITY, -1, np.int32)
  born[r.permutation(CAPACITY)[:count]] = 5
  born[:2] = 3  # too old
  priority = np.where(born >= 0, r.uniform(1e-6, 4, CAPACITY), 0)
  state = experience.empty(batch_of(0), CAPACITY).replace(
    born=jnp.asarray(born), priority=jnp.asarray(priority)
  )
  key = jax.random.key(4)
  noise = np.asarray(jax.random.gumbel(key, (CAPACITY,), jnp.float64))
  live = (born >= 0) & (6 - born <= AGE)
  want, weight = reference(priority, live, noise, 5, alpha, beta)
  got = experience.draw(state, 6, key, 5, AGE, alpha, beta)
  many = len(want)
  assert got.slot[:many].tolist() == want
  assert len(set(got.slot.tolist())) == 5
  assert got.live.tolist() == [True] * many + [False] * (5 - many)
  np.testing.assert_allclose(got.weight[:many], weight, rtol=1e-12)
  assert not got.weight[many:].any()


def test_tokens_that_come_back_have_their_weight_times_w():
  m, plain = memory(6, 1.0, 0.5), memory(6, 1.0, 0.0)
  state = play(m, 1)
  key = jax.random.key(7)
  one, two = (x.read(state, batch_of(1), 1, key)[0] for x in (m, plain))
  weight = experience.draw(state, 1, key, 6, AGE, 1.0, 0.5).weight
  assert np.ptp(weight) > 0.1
  of = np.concatenate([np.ones(B), weight])[np.asarray(two.rows.traj)]
  np.testing.assert_allclose(one.rows.weight, two.rows.weight * of)
  np.testing.assert_array_equal(one.rows.logp, two.rows.logp)


@pytest.mark.slow
def test_on_an_explicit_mesh():
  m = memory(6, 0.6, 0.4)
  state = play(m, 1)
  want = m.read(state, batch_of(1), 1, jax.random.key(0))[0]
  written = m.write(state, want, credit(want, 1), 1)
  shape = batch_of(1).rows.traj.shape
  with jax.set_mesh(mesh.make({'fsdp': 2, 'tensor': 2})):
    read, write = (jax.jit(f.__wrapped__) for f in (m.read, m.write))
    put = jax.device_put(state, jax.P())
    got = read(put, batches.place(batch_of(1), shape), 1, jax.random.key(0))[0]
    after = write(put, got, credit(got, 1), 1)
  jax.tree.map(np.testing.assert_array_equal, (got, after), (want, written))
