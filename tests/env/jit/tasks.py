"""Tasks of environments inside jit, alone and as a batch, and walks in them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.env.jit import base, frozen_lake
from agentrl.env.jit.base import SolvedTask

KEY = jax.random.key(0)


def stack(solved: list[SolvedTask]) -> dict[str, np.ndarray]:
  """Stacks tasks: each array gains a leading axis [B, ...]."""
  return {
    name: np.stack([s.task[name] for s in solved]) for name in solved[0].task
  }


def lake(text: str, intended: float = 1.0, **fields):
  """-> env, task of a map with S, G, H and _."""
  grid = np.array([list(row) for row in text.split()])
  holes = grid == 'H'
  start, goal = (int(np.argmax(grid == symbol)) for symbol in 'SG')
  env = frozen_lake.FrozenLake(*grid.shape, intended, **fields)
  task = {
    'holes': holes.reshape(-1),
    'value': frozen_lake.optimal_value(holes, goal, intended),
    'start': np.int32(start),
    'goal': np.int32(goal),
  }
  return env, task


@functools.cache
def jitted(method):
  return jax.jit(method)


def walk(env, state, actions):
  """-> state, texts, rewards, dones, facts of every turn."""
  seen = []
  for k, action in enumerate(map(jnp.int32, actions)):
    before, key = state, jax.random.fold_in(KEY, k)
    state, obs, reward, done = jitted(env.step)(before, action, key)
    facts = jitted(env.info)(before, action, state)
    info = tuple(round(float(facts[name]), 4) for name in env.columns)
    text = base.render_text(env, obs)
    seen.append((text, round(float(reward), 4), bool(done), info))
  return state, *zip(*seen, strict=True)
