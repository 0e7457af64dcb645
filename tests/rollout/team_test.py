"""Several policies in one rollout: each trajectory is its own actor's."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import mesh
from agentrl.model import microbatch
from agentrl.rollout import actor, seats, team
from agentrl.rollout import record as record_lib
from agentrl.task.base import make_attempts
from tests import errors
from tests.rollout import seats_test as matches

B = 2 * matches.MATCHES
ROLES = {
  'by seat': np.arange(B) % 2,
  'by match': (np.arange(B) + np.arange(B) // 2 % 3 // 2) % 2,
}


@functools.cache
def params(i):
  return mesh.init(matches.MODULE.specs, jax.random.key(i))


@functools.cache
def play(history, size, by):
  """Compiles (parameters of each actor, their trajectories) -> record."""
  plan, world = matches.sizes('kuhn', history), matches.world('kuhn')
  attempts = make_attempts(np.arange(B) // 2 % 6, 4, 9, 1.0)

  @jax.jit
  def run(every, role):
    actors = tuple(
      actor.model(matches.SHAPE, p, message=2, eot=matches.WORDS.eot)
      for p in every
    )
    speaker = team.TeamActor(actors, role, message=2)
    assert len(actors) == size
    who = speaker if by == 'team' else actors[0]
    return seats.rollout(world, plan, who, attempts, jax.random.key(7))

  return run


@pytest.mark.parametrize(
  ('history', 'roles'), [('turn', 'by seat'), ('full', 'by match')]
)
def test_log_probs_are_those_of_a_trajectorys_own_policy(history, roles):
  role = ROLES[roles]
  every = params(1), params(2)
  r = play(history, 2, 'team')(every, role)
  plan = matches.sizes('kuhn', history)

  @jax.jit
  def learned(p, r):
    rows = record_lib.rows(r, matches.laid(plan, r), version=0)
    n = rows.tokens.shape[0]
    out = microbatch.forward(matches.MODULE.apply, p, rows, ('logp',), n)
    return rows, out.logp

  for i in (0, 1):
    rows, own = learned(every[i], r)
    _, other = learned(every[1 - i], r)
    mine = np.asarray(rows.sampled & (role[rows.traj] == i))
    assert mine.sum() > 40
    np.testing.assert_allclose(own[mine], rows.logp[mine], atol=1e-5, rtol=0)
    assert np.abs(other[mine] - rows.logp[mine]).max() > 1e-2


def test_a_team_of_equals_plays_as_one():
  role, history = jnp.asarray(ROLES['by match']), 'full'
  two = play(history, 2, 'team')((params(1), params(1)), role)
  one = play(history, 1, 'alone')((params(1),), role)
  for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
    if jnp.issubdtype(a.dtype, jnp.floating):
      np.testing.assert_allclose(a, b, atol=1e-6)
    else:
      np.testing.assert_array_equal(a, b)


def test_turns_that_are_given_are_refused():
  speaker = team.TeamActor((), jnp.zeros(4, jnp.int32), message=2)
  with errors.raises(ValueError, 'prefix'):
    speaker.read((), jnp.zeros((4, 2), jnp.int32), jnp.zeros(4, jnp.int32))
