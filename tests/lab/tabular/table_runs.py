"""Small worlds, and what table policies did in them."""

import functools
import importlib
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.lab.tabular import build, mdp, train
from agentrl.learner import update
from agentrl.types import Batch, Credit

SMALL = train.TabularSize(tasks=2, group=4)
TOKENS = 3  # of a message


def config(method):
  return importlib.import_module(f'agentrl.configs.{method}').get_config()


class Played(NamedTuple):
  case: build.TabularCase
  world: mdp.MDP
  logits: np.ndarray
  batch: Batch
  credit: Credit


@functools.cache
def played(method):
  """A batch of the warm start and what the method credits it with."""
  size = SMALL._replace(tokens=TOKENS)
  case = build.case(config(method), 'bifurcation', size, 'adam', {'length': 3})
  world = case.world.make(jax.random.key(0), size.tasks)
  learner = build.at_rate(case.learner, 0.1)
  state = update.init(learner, jax.random.key(1))
  logits = train.warm_start(case, world, jax.random.key(2))
  state.params['policy']['table'] = logits

  @jax.jit
  def judged(world, state, key):
    batch, _ = train.sample(case, world, state, key)
    return batch, update.update(learner, state, batch)[2].credit

  batch, credit = judged(world, state, jax.random.key(3))
  logits, world, batch, credit = jax.device_get((logits, world, batch, credit))
  return Played(case, world, logits, batch, credit)


def random_world(states=5, actions=3, slip=0.3):
  """State 3 is won, state 4 is lost."""
  r = np.random.default_rng(0)
  to = r.integers(0, states, (states, actions))
  over = np.arange(states) >= 3
  to = np.where(over[:, None], np.arange(states)[:, None], to)
  return mdp.MDP(
    next=jnp.asarray(to, jnp.int32),
    start=jnp.array([0, 1], jnp.int32),
    won=jnp.arange(states) == 3,
    over=jnp.asarray(over),
    potential=jnp.zeros(states),
    slip=jnp.float32(slip),
  )


def chance(world, p, s, left):
  """The chance to win from s in so many turns, by recursion in float64."""
  if left == 0 or world.over[s]:
    return float(world.won[s])
  a = len(p[s])
  slip = float(world.slip)
  done = (1 - slip) * p[s] + slip / a
  return sum(
    done[i] * chance(world, p, int(world.next[s, i]), left - 1)
    for i in range(a)
  )
