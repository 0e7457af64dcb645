"""Sketches of tasks, as an agent first sees them."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from agentrl import registry
from agentrl.env import base as env_base
from agentrl.env.jit.base import JitEnv
from agentrl.recall import base
from agentrl.text.tokenizer import Tokenizer


def described(
  spec: registry.MethodSpec, world: Any, train: int, tokenizer: Tokenizer
) -> np.ndarray:
  """Sketches what an agent first sees of every task: [n, D] f32.

  Nothing, [n, 0], for methods that do not look at it.

  Args:
    world: the bundle of an environment, with all tasks
    train: tasks to train on, which come first
  """
  inside = isinstance(world.tasks, Mapping)
  n = len(next(iter(world.tasks.values())) if inside else world.tasks)
  needs: tuple[str, ...] = ()
  if spec.recall:
    needs = registry.needs(spec, 'recall', 'recall', spec.recall)
  if env_base.DESCRIBED not in needs:
    return np.zeros((n, 0), np.float32)
  if inside:
    return base.sketches(_observed(world.env, world.tasks), train)
  texts = [world.family.describe(task) for task in world.tasks]
  return base.sketches([tokenizer.encode(x) for x in texts], train)


def _observed(env: JitEnv, tasks) -> list[list[int]]:
  """Returns the pieces of the first observation of every task."""
  key = jax.random.key(0)
  seen = jax.jit(jax.vmap(lambda task: env.reset(key, task)[1]))(tasks)
  return [x[x >= 0].tolist() for x in np.asarray(seen)]
