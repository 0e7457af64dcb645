"""Lengths of prefixes: first turns of a trajectory that an attempt is given.

A piece of the slot 'prefix' is a function

  (plan, attempts, turns, step, *, hp) -> [B] i64        host arrays

of what all steps have in common, the attempts of this one, the turns n_i of
the demonstration of each attempt's task, or of what c.prefix_source has (0:
there is none) and the step of RL.
It gives the number of turns k_i that are played before the policy goes on;
`clipped` leaves it a turn of its own. What is drawn depends on (seed, step)
alone.
"""

import math
from typing import Annotated

import jax.numpy as jnp
import numpy as np

from agentrl import domain, registry
from agentrl.ops import counting
from agentrl.runtime import uniform
from agentrl.types import AttemptPlan, Attempts, Batch, Metrics

UNITS = ('trajectory', 'group')
Part = Annotated[float, domain.UNIT]
Unit = Annotated[str, domain.OneOf(*UNITS)]
GIVES = ('column:prefix', 'span:prefix', 'given_turns')


def gives_turns(name: str) -> bool:
  """Returns whether a component of the slot gives attempts any turn."""
  return GIVES[0] in registry.get('prefix', name, 'c.prefix').gives


def measure(batch: Batch) -> Metrics:
  """Measures what was given, and how attempts that were given no turn ended."""
  live = counting.trajectories(batch).astype(jnp.float32)
  given, count = batch.ids['prefix'], jnp.sum(live)
  alone = live * (given == 0)
  return {
    'prefix_turns': (jnp.sum(live * given), count),
    'prefix_cut': (jnp.sum(live * batch.ids['prefix_cut']), count),
    'success_alone': (
      jnp.sum(alone * (batch.outcome > 0.5)),
      jnp.sum(alone),
    ),
  }


_register = registry.register('prefix', gives=GIVES, metrics=measure)


@registry.register('prefix')
def none(plan: AttemptPlan, attempts: Attempts, turns, step: int) -> np.ndarray:
  """Returns 0: the policy plays every turn."""
  return np.zeros_like(turns)


@_register
def random_prefix(
  plan: AttemptPlan,
  attempts: Attempts,
  turns: np.ndarray,
  step: int,
  *,
  share: Part = 1.0,
  unit: Unit = 'group',
  low: Annotated[float, domain.Real(0, most='high')] = 0.0,
  high: Part = 1.0,
  final_high: Part = 1.0,
  steps: domain.Count0 = 0,
) -> np.ndarray:
  """Takes a random part of the trajectory:

    k_i = ⌊u n_i⌋,   u uniform on [low, max(low, h(step))]
    h(s) = final + (high − final) (1 + cos(π min(s / steps, 1))) / 2

  By group: each group has a prefix with the chance `share`, its members the
  same one; with u on [0, 1), k is uniform on {0 .. n − 1}, as in Step-GRPO
  (EmbodiedBrain, arXiv 2510.20578). By trajectory: the last ⌈share · G⌉ members
  of every group have one, of a length each (Prefix-RFT, arXiv 2507.01679).

  Args:
    share: of what has a prefix
    unit: what has one length: a 'trajectory' or a 'group'
    low, high: parts of a trajectory
    final_high: what `high` becomes over `steps`, by a cosine
    steps: 0: `high` stays
  """
  groups = turns.size // plan.group
  u = uniform.draw(
    plan.seed, step, (2, turns.size), uniform.UniformStream.LENGTHS
  )
  top = high
  if steps:
    end = (1 + math.cos(math.pi * min(step / steps, 1))) / 2
    top = final_high + (high - final_high) * end
  part = low + (max(low, top) - low) * u[0]
  if unit == 'group':
    first = np.repeat(np.arange(groups) * plan.group, plan.group)
    has, part = u[1][first] < share, part[first]
  else:
    # A share of an eighth of 8 is 1, whatever rounding makes of it.
    count = math.ceil(round(share * plan.group, 9))
    has = np.arange(turns.size) % plan.group >= plan.group - count
  return np.where(has, np.floor(part * turns), 0).astype(np.int64)


@_register
def reverse_prefix(
  plan: AttemptPlan,
  attempts: Attempts,
  turns: np.ndarray,
  step: int,
  *,
  every: domain.Count = 10,
  mixed: Part = 0.0,
) -> np.ndarray:
  """Takes all but the trajectory's last turns, of which there are ever more:

    k_i = max(n_i − l, 0),   l = 1 + ⌊step / every⌋

  A reverse curriculum (arXiv 1812.03381; in its mixed form 2402.05808). After
  `every` times the longest demonstration the policy plays everything.

  Args:
    every: steps until a turn more is left to the policy
    mixed: share of the groups whose l is uniform on {1 .. 1 + ⌊step / every⌋}
  """
  left = np.full(turns.size, 1 + step // every)
  u = uniform.draw(
    plan.seed, step, (2, turns.size), uniform.UniformStream.LENGTHS
  )
  first = np.arange(turns.size) // plan.group * plan.group
  most = np.minimum(left, np.maximum(turns, 1))  # no task has more to leave
  any_of = 1 + np.floor(u[0][first] * most).astype(np.int64)
  left = np.where(u[1][first] < mixed, any_of, left)
  return np.maximum(turns - left, 0)


@_register
def spaced_prefix(
  plan: AttemptPlan,
  attempts: Attempts,
  turns: np.ndarray,
  step: int,
  *,
  states: domain.Count = 4,
  own: domain.Count0 = 0,
) -> np.ndarray:
  """Takes evenly spaced states of one trajectory, from its first on:

    k_j = ⌊(j mod S) n / S⌋   for member j of a group

  So that a group tells from which of them the policy solves the task (EEF,
  arXiv 2504.13145). With G a multiple of S all are attempted equally often;
  with S at least n these are all states of the trajectory.

  Args:
    states: S; more than the group has members are not all attempted
    own: turns that the policy plays behind the prefix, read by the run; 0: to
      the end
  """
  del own
  member = np.arange(turns.size) % plan.group % states
  return member * turns // states


def clipped(count, turns, limit) -> np.ndarray:
  """Clips lengths to leave the policy at least one turn: [B] i32.

    min(k, n − 1, limit − 1), at least 0

  Args:
    count, turns, limit: [B], k, n and the turn limit of each attempt
  """
  most = np.minimum(np.asarray(turns), np.asarray(limit)) - 1
  return np.clip(count, 0, np.maximum(most, 0)).astype(np.int32)
