"""Pairs of solutions and their twins: drawn, played in the world, counted."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.dataset import jit_tasks
from agentrl.env.jit import sokoban_levels
from agentrl.lab.papers.planted_pairs import twins
from agentrl.lab.papers.planted_pairs.twins import KINDS, Twin
from agentrl.rollout.jit_sizes import RolloutSizes, TokenizedEnv, capacity
from agentrl.run.experiment import Experiment
from agentrl.run.play import collect, jit_env
from agentrl.stats import reward_quality
from agentrl.task.base import make_attempts
from agentrl.types import Batch

SPARE = 4  # one level more in so many, for those without room for a fault


class Bucket(NamedTuple):
  """Tasks whose solutions have about one length, and twins of these."""

  setup: Experiment  # with these tasks alone, and turns for a detour
  solved: list[list[int]]  # actions of each task's solution
  twins: list[list[Twin]]  # of each task, in the order of KINDS
  # (task, actions) of trajectories, neighbours a pair -> them as played
  replay: Callable[[Sequence[tuple[int, Sequence[int]]]], Batch]


def buckets(
  s: Experiment, split: str, count: int, of: Sequence[tuple[int, int]]
) -> list[Bucket]:
  """Draws tasks of each length, and plants faults; no split has another's.

  Args:
    count: tasks of a bucket
    of: the fewest and the most turns of each bucket's solutions
  """
  assert isinstance(s.world, TokenizedEnv)
  assert isinstance(s.plan, RolloutSizes)
  seed, out = s.config.seed, []
  for least, most in of:
    source = sokoban_levels.Generated(min_moves=least, max_moves=most)
    drawn = jit_tasks.load(
      source, split, count + count // SPARE, seed, folder=s.config.data
    )
    rng = np.random.default_rng([seed, split == 'test', least])
    kept, solved, found = [], [], []
    for i, padded in enumerate(drawn.actions):
      task = {name: x[i] for name, x in drawn.tasks.items()}
      actions = padded[padded >= 0].tolist()
      of_task = twins.planted(task, source.width, actions, rng)
      if of_task and len(kept) < count:
        kept.append(i)
        solved.append(actions)
        found.append(of_task)
    if len(kept) < count:
      raise RuntimeError(f'{count} levels must have room, got {len(kept)}')
    plan = dataclasses.replace(s.plan, turns=most + twins.DETOUR)
    tasks = {name: jnp.asarray(x[kept]) for name, x in drawn.tasks.items()}
    world = dataclasses.replace(s.world, tasks=tasks)
    setup = s._replace(world=world, plan=plan, capacity=capacity(world, plan))
    out.append(Bucket(setup, solved, found, replayer(setup)))
  return out


def replayer(s: Experiment) -> Callable[..., Batch]:
  """Makes what plays (task, actions) in the world, as of `Bucket`."""
  assert isinstance(s.world, TokenizedEnv)
  spoken = jit_env.spoken(s.config, s.tokenizer, s.world.env.actions)
  nothing = [int(s.world.pieces.tokens[0, 0]), s.tokenizer.eot]  # a wall
  table = np.array([*spoken, nothing])  # [A + 1, M]; action -1 is the last
  play = jax.jit(functools.partial(collect.demonstrate, s))

  def replay(given: Sequence[tuple[int, Sequence[int]]]) -> Batch:
    n, k = len(given), s.plan.turns
    actions, size = np.full((n, k), -1), np.array([len(x) for _, x in given])
    for row, (_, x) in zip(actions, given, strict=True):
      row[: len(x)] = x
    length = table.shape[1] * (np.arange(k) < size[:, None])
    attempts = make_attempts([task for task, _ in given], 2, k, 1.0)
    attempts = attempts.replace(limit=size.astype(np.int32))
    key = jax.random.key(0)  # the rules leave nothing to chance
    return play(attempts, table[actions], length, key)

  return replay


def replayed(b: Bucket) -> Batch:
  """Plays every solution and its twins, task by task: [T (1 + KINDS)].

  Raises:
    RuntimeError: a twin has not earned less than the solution.
  """
  given = []
  for task, (solved, of) in enumerate(zip(b.solved, b.twins, strict=True)):
    given += [(task, solved), *((task, x.actions) for x in of)]
  batch = b.replay(given)
  if not np.all(accuracy(by_task(b, earned(batch))) == 1):
    raise RuntimeError('a twin must earn less than the solution')
  return batch


def earned(batch: Batch) -> np.ndarray:
  """Sums what the world paid: [B]."""
  return np.sum(np.asarray(batch.turns.terms['env'], np.float64), axis=1)


def by_task(b: Bucket, x: Any) -> np.ndarray:
  """Returns what is said of `replayed`, [T (1 + KINDS), ...], task by task."""
  return np.reshape(x, (len(b.solved), 1 + len(KINDS), *np.shape(x)[1:]))


def accuracy(score: np.ndarray) -> np.ndarray:
  """Measures how often the chosen one scores higher, ties one half: [KINDS].

  Args:
    score: [T, 1 + KINDS], of the chosen one first
  """
  win, *lose = score.T
  return np.array([reward_quality.pair_accuracy(win, x) for x in lose])
