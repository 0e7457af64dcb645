"""A league of past selves: who is kept, rated and drawn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import registry
from agentrl.configs import base, spiral
from agentrl.memory import league
from agentrl.run.check import fields
from agentrl.testing import batches
from agentrl.types import Status
from tests import errors
from tests.ops import rating_test

SIZE = 3


def memory(**hp):
  hp = dict(size=SIZE, every=2) | hp
  return registry.bind('memory', 'league', hp)()


def params(x):
  tree = {'w': jnp.full((2, 3), float(x)), 'b': jnp.array([x], jnp.bfloat16)}
  return {'policy': tree, 'rival': jax.tree.map(lambda a: a + 100, tree)}


def begun(m, x=0):
  return m.begin(m.init(None, 0), params(x))


def batch(outcome, version, role=(0, 1), status=None, played=None):
  """[m, 2] outcomes, of the players in the order of `role`."""
  s = batches.story()
  made = batches.lay(s, padding=0).batch
  outcome = np.asarray(outcome, np.float32)
  b = outcome.size
  rows = jax.tree.map(lambda x: x[:1], made.rows)
  t = 2 * b
  traj = jnp.arange(t)[None] // 2
  rows = rows.replace(
    tokens=jnp.zeros((1, t), jnp.int32),
    traj=traj,
    sampled=jnp.ones((1, t), bool),
    version=jnp.where(traj % 2 == role.index(0), version, 99),
  )
  status = np.full(b, Status.SOLVED) if status is None else status
  valid = np.ones((b, 1), bool) if played is None else np.asarray(played)
  return made.replace(
    rows=rows,
    turns=made.turns.replace(valid=jnp.asarray(valid).reshape(b, 1)),
    ids={
      'role': jnp.tile(jnp.array(role), b // 2),
      'match': jnp.arange(b) // 2,
    },
    outcome=jnp.asarray(outcome.reshape(-1)),
    status=jnp.asarray(status),
  )


WON = [[1, 0], [1, 0], [0, 1], [0, 0]]


@pytest.mark.parametrize('role', [(0, 1), (1, 0)])
def test_ratings_follow_the_matches_in_either_seat(role):
  m = memory()
  state = begun(m).replace(rating=jnp.array([1250.0, 1200.0, 1200.0]))
  out = np.asarray(WON, np.float32)[:, list(role)]
  after = m.write(state, batch(out, 0, role), None, 0)
  want = rating_test.reference(1200, 1250, [1, 1, 0, 0.5], [True] * 4, 32.0)
  np.testing.assert_allclose([after.own, after.rating[0]], want, rtol=1e-6)
  np.testing.assert_array_equal(after.games, [4, 0, 0])
  assert float(after.score) == pytest.approx(0.625)


def test_what_broke_or_was_not_played_counts_for_nobody():
  m = memory()
  status = np.full(8, Status.SOLVED)
  status[1] = Status.ENV_ERROR
  played = np.ones(8, bool)
  played[4:6] = False
  got = m.write(begun(m), batch(WON, 0, (0, 1), status, played), None, 0)
  want = rating_test.reference(1200, 1200, [1, 0.5], [True] * 2, 32.0)
  np.testing.assert_allclose([got.own, got.rating[0]], want, rtol=1e-6)
  assert int(got.games[0]) == 2


def test_an_old_batch_is_rated_against_whom_it_met():
  m = memory()
  state = begun(m)
  state = state.replace(
    rival=state.rival.at[4].set(2).at[5].set(1),
    written=jnp.array([0, 3, 5]),
  )
  one = m.write(state, batch(WON, 5), None, 7)
  np.testing.assert_array_equal(one.games, [0, 4, 0])
  # The one of version 4 has made way for a past self of step 5.
  two = m.write(state, batch(WON, 4), None, 7)
  np.testing.assert_array_equal(two.games, [0, 0, 0])
  assert float(two.own) == 1200


def test_the_oldest_makes_way_every_so_many_updates():
  m = memory(rule='latest')
  state, now = begun(m, 0), params(0)
  held = []
  for step in range(10):
    now = params(step + 1)
    state, out = m.keep(state, now, step, jax.random.key(step))
    held.append(sorted(set(np.asarray(state.params['w'])[:, 0, 0].tolist())))
    newest = held[-1][-1]
    # The rival is the newest past self, to the bit, and nobody else changes.
    assert out['policy'] is now['policy']
    np.testing.assert_array_equal(out['rival']['w'], newest)
    assert out['rival']['b'].dtype == jnp.bfloat16
    at = int(state.rival[(step + 1) % league.HISTORY])
    assert float(state.params['w'][at, 0, 0]) == newest
  assert held[0] == [0]
  assert held[1] == [0, 2]
  assert held[-1] == [6, 8, 10]


def test_a_new_one_has_the_rating_of_the_policy():
  m = memory(every=1)
  state = begun(m).replace(own=jnp.float32(1300))
  state, _ = m.keep(state, params(1), 0, jax.random.key(0))
  np.testing.assert_allclose(state.rating, [1200, 1300, 1200])
  np.testing.assert_array_equal(state.written, [0, 1, -1])


def test_rivals_are_drawn_by_rule():
  state = begun(memory()).replace(
    own=jnp.float32(1200),
    rating=jnp.array([1000.0, 1400.0, 1200.0]),
    written=jnp.array([0, 2, -1]),
  )
  beats = [1 / (1 + 10 ** ((r - 1200) / 400)) for r in (1000.0, 1400.0)]
  hard = np.array([(1 - p) ** 2 for p in beats])
  for rule, want in (
    ('uniform', [0.5, 0.5, 0]),
    ('latest', [0, 1, 0]),
    ('pfsp', [*(hard / hard.sum()), 0]),
  ):
    got = league.chances(state, rule, 2.0)
    np.testing.assert_allclose(got, want, rtol=1e-5)
    keys = jax.random.split(jax.random.key(0), 2000)
    draw = jax.vmap(lambda k, x=rule: league.drawn(state, x, 2.0, k))
    counts = np.bincount(np.asarray(draw(keys)), minlength=SIZE) / 2000
    np.testing.assert_allclose(counts, want, atol=0.04)
  unbeaten = state.replace(own=jnp.float32(1e9))  # nobody is hard to beat
  got = league.chances(unbeaten, 'pfsp', 2.0)
  np.testing.assert_allclose(got, [0.5, 0.5, 0])


def config(kind='frozen', **changes):
  c = spiral.get_config('tiny')
  base.role(c, 'rival', kind=kind)
  c.rollout.seats = ('policy', 'rival')
  c.rollout.swap_seats = 1
  c.memory = (*c.memory, 'league')
  for path, value in changes.items():
    node, names = c, path.split('__')
    for name in names[:-1]:
      node = node[name]
    node[names[-1]] = value
  return c


@pytest.mark.parametrize(
  ('changes', 'sentence'),
  [
    (dict(rollout__seats=('rival', 'policy')), 'rollout.seats rival'),
    (dict(rollout__seats=()), 'rollout.seats'),
    (dict(kind='train'), 'role.rival.kind train'),
    (dict(staleness__bound=16), 'staleness.bound 16'),
  ],
)
def test_what_does_not_fit_is_refused(changes, sentence):
  good = fields.read(config())
  registry.check(base.wiring(good), good)
  wrong = fields.read(config(**changes))
  with errors.raises(ValueError, sentence):
    registry.check(base.wiring(wrong), wrong)
