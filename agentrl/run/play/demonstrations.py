"""Demonstrations of training tasks, by an expert or an imperfect one."""

from collections.abc import Sequence

import numpy as np

from agentrl.dataset import host_tasks, jit_tasks
from agentrl.rollout import hierarchical, jit_sizes, registered
from agentrl.run.experiment import Experiment
from agentrl.run.play import host_env, jit_env
from agentrl.run.play.base import Script
from agentrl.runtime import uniform


def scripts(s: Experiment) -> list[Script]:
  """Returns the messages that solve each training task; [] if unknown.

  Raises:
    ValueError: one is longer than a message or a trajectory may be.
  """
  if isinstance(s.train, host_tasks.HostTaskSet):
    demos = s.train.demonstration
    return host_env.messages(s.config, s.tokenizer, demos, seats=s.seats)
  tokens, length = messages(s)
  return [
    [ids[:n].tolist() for ids, n in zip(*pair, strict=True) if n]
    for pair in zip(tokens, length, strict=True)
  ]


def messages(s: Experiment) -> tuple[np.ndarray, np.ndarray]:
  """Returns the solver's actions as tokens: [n, K, M], their lengths [n, K].

  Of the training tasks of an environment inside jit.
  """
  taskset, world = s.train, s.world
  assert isinstance(taskset, jit_tasks.JitTaskSet)
  assert isinstance(world, jit_sizes.TokenizedEnv)
  n, k, m = len(taskset), s.plan.turns, s.plan.message
  tokens = jit_env.spoken(s.config, s.tokenizer, world.env.actions)
  table = np.zeros((len(tokens) + 1, m), np.int32)
  for i, x in enumerate(tokens):
    table[i, : len(x)] = x
  size = np.array([len(x) for x in tokens] + [0], np.int32)
  actions = np.full((n, k), -1)
  width = min(k, taskset.actions.shape[1])
  actions[:, :width] = taskset.actions[:, :width]
  if registered.kind_of(s.algorithm.spec).subgoal_words:
    actions += hierarchical.new_subgoals(actions) * len(world.env.actions)
  return table[actions], size[actions]


def moves(s: Experiment) -> tuple[np.ndarray, np.ndarray]:
  """Returns the message of each action: tokens [A, M], their lengths [A]."""
  assert isinstance(s.world, jit_sizes.TokenizedEnv)
  tokens = jit_env.spoken(s.config, s.tokenizer, s.world.env.actions)
  table = np.zeros((len(tokens), s.plan.message), np.int32)
  for row, ids in zip(table, tokens, strict=True):
    row[: len(ids)] = ids
  return table, np.array([len(ids) for ids in tokens], np.int32)


def with_errors(of: Sequence[Script], rate: float, seed: int) -> list[Script]:
  """Replaces some messages, as an expert would that errs and goes on.

  Each message is replaced with the chance `rate`, by another one that is drawn
  uniformly from the different messages of all. Draws of a trajectory depend on
  the seed and its place alone.
  """
  different = sorted({tuple(ids) for script in of for ids in script})
  place = {ids: i for i, ids in enumerate(different)}

  def one(i: int, script: Script) -> Script:
    u = uniform.draw(seed, i, (2, len(script)), uniform.UniformStream.ERRORS)
    out = []
    for ids, chance, which in zip(script, *u, strict=True):
      if chance < rate and len(different) > 1:
        other = int(which * (len(different) - 1))
        other += other >= place[tuple(ids)]  # any but itself
        ids = list(different[other])
      out.append(ids)
    return out

  return [one(i, script) for i, script in enumerate(of)]
