"""Worlds in tables: exact values, and what wins in each."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.lab.tabular import mdp, policy
from tests.lab.tabular import table_runs


def test_values_are_those_of_a_recursion_and_of_play():
  world, turns = table_runs.random_world(), 4
  known = jax.device_get(world)
  table = policy.TablePolicy(5, 3, 1)
  logits = jax.random.normal(jax.random.key(1), (5, 3))
  p = policy.probabilities(table, logits)
  v, q = jax.device_get(mdp.values(world, p, turns))
  exact = np.asarray(p, np.float64)
  for k in range(turns + 1):
    for s in range(5):
      want = table_runs.chance(known, exact, s, turns - k)
      np.testing.assert_allclose(v[k, s], want, atol=1e-6)
  mean = np.mean([v[2, int(s)] for s in known.next[0]])
  direct = 0.7 * v[2, int(known.next[0, 2])] + 0.3 * mean
  np.testing.assert_allclose(q[1, 0, 2], direct, rtol=1e-5)
  n = 20000
  task = jnp.arange(n) % 2
  play = jax.jit(policy.play, static_argnums=(1, 4))
  told = play(world, table, logits, task, turns, jax.random.key(2))
  rate = float(np.mean(np.asarray(world.won)[told.state[:, -1]]))
  want = float(mdp.success(world, p, turns))
  assert abs(rate - want) < 5 * np.sqrt(want * (1 - want) / n)


@pytest.mark.parametrize('slip', [0.0, 0.2])
def test_bifurcation_is_won_by_the_decisive_choice(slip):
  size = mdp.bifurcation(length=3, choices=4, slip=slip)
  world = size.make(jax.random.key(0), 5)
  chex.assert_shape(world.next, (5 * size.states, 4))
  even = jnp.full(world.next.shape, 0.25)
  v, _ = mdp.values(world, even, size.turns)
  np.testing.assert_allclose(v[0, world.start], 0.25, rtol=1e-6)
  best = 1 - slip + slip / 4
  np.testing.assert_allclose(world.potential[world.start], best, rtol=1e-6)


def test_every_choice_and_place_of_a_bifurcation_may_decide():
  """Each as often, over tasks: who chooses without looking has no edge."""
  tasks, length, choices = 600, 2, 3
  size = mdp.bifurcation(length=length, choices=choices)
  world = size.make(jax.random.key(3), tasks)
  wins = []
  for place in range(length):
    for choice in range(choices):
      # The choice at the place, and elsewhere the one after it.
      own = (jnp.arange(size.states) // 3 == place)[:, None]
      played = jnp.where(own, choice, (choice + 1) % choices)
      plan = jax.nn.one_hot(played[:, 0], choices)
      v, _ = mdp.values(world, jnp.tile(plan, (tasks, 1)), size.turns)
      wins.append(float(v[0, world.start].mean()))
  # Right at the decisive place with 1/3, wherever that place is.
  np.testing.assert_allclose(wins, 1 / 3, atol=0.06)


def test_the_door_opens_with_the_key_only():
  size = mdp.key_door(size=3, turns=12, slip=0.0)
  world = size.make(jax.random.key(3), 4)
  to, won = np.asarray(world.next), np.asarray(world.won)
  assert won.sum() == 4  # one cell of each task
  for task in range(4):
    distance, here = 0, {int(world.start[task])}
    while not won[list(here)].any():
      here |= {int(s) for s in to[list(here)].ravel()}
      distance += 1
    assert {s // size.states for s in here} == {task}
    np.testing.assert_allclose(
      world.potential[world.start[task]], 0.9**distance, rtol=1e-5
    )
    cell = (np.flatnonzero(won)[task] - task * size.states) % 9
    without = task * size.states + cell  # at the door, without the key
    assert not won[without]
    assert (to[without] != without).any()


def test_a_chain_has_one_action_on_and_one_back():
  size = mdp.chain(length=5, turns=9, actions=4, slip=0.0)
  world = size.make(jax.random.key(2), 6)
  place = np.arange(5)
  to = np.asarray(world.next).reshape(6, 5, 4) - 5 * np.arange(6)[:, None, None]
  np.testing.assert_array_equal(np.asarray(world.start), 5 * np.arange(6))
  won = np.asarray(world.won).reshape(6, 5)
  np.testing.assert_array_equal(won, np.broadcast_to(place == 4, (6, 5)))
  for task in range(6):
    for p in range(4):
      want = [p + 1, max(p - 1, 0), p, p]
      assert sorted(to[task, p]) == sorted(want)
    assert (to[task, 4] == 4).all()
  on = (to[:, :4] == place[:4, None] + 1).argmax(axis=-1)
  assert len(np.unique(on, axis=0)) > 1  # tasks differ
  assert any(len(set(row)) > 1 for row in on.tolist())  # and places
  potential = np.asarray(world.potential).reshape(6, 5)
  np.testing.assert_allclose(
    potential, np.broadcast_to(0.9 ** (4 - place), (6, 5)), rtol=1e-6
  )


@pytest.mark.parametrize(
  'settings', [{'length': 1}, {'actions': 1}, {'length': 9, 'turns': 7}]
)
def test_a_chain_that_cannot_be_won_is_refused(settings):
  with pytest.raises(ValueError):
    mdp.chain(**settings)
