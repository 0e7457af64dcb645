"""Says that the policy moves too fast for the age of its batches.

A batch of age S is trained on S updates after it was sampled. The rate law of
asynchronous training (2607.01083) asks for a rate η at which the policy stays
near it meanwhile:

  η << R / (S G),   G what an update moves per unit of rate, R how far is near

In nats of log ρ, ρ the ratio to the policy that sampled:

  D = sqrt(E[(log ρ)²]) = sqrt(2 KL)    what η S G has become, measured
  R = min(log(1 + c_high), −log(1 − c_low))    where the loss begins to clip

The KL is the loss's own `approx_kl`, whose leading term is E[(log ρ)²] / 2.
What D > R costs is measured in docs/results/staleness.md; D grew there with S
and η, but more slowly than in proportion.
"""

import collections
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

STEPS = 10  # whose mean KL is looked at


class Limits(NamedTuple):
  """What a run has set that the law speaks of."""

  bound: int  # S
  term: str  # loss whose ratio is to the policy that sampled
  radius: float  # R, nats
  rate: float  # η


class Drift(NamedTuple):
  """How far the policy is from the one that sampled."""

  moved: float  # D, nats
  age: float  # updates in which it moved so far, above 0

  @property
  def of_update(self) -> float:
    """What an update moves of it, nats: D / age."""
    return self.moved / self.age


def clip_range(low: float, high: float) -> float:
  """Computes R, nats: the nearer end of the clip; inf: there is none."""
  below = -math.log1p(-low) if low < 1 else math.inf
  return min(below, math.log1p(high))


def slower(limits: Limits, drift: Drift) -> tuple[float, int]:
  """Computes the rate, and the bound, at which D would be R.

  η R / D and the whole part of age R / D: as in the law, D is proportional to
  both.
  """
  share = limits.radius / drift.moved
  return limits.rate * share, math.floor(drift.age * share)


def sentence(limits: Limits, drift: Drift) -> str:
  """Says in one sentence that D is beyond R, and what to do."""
  rate, bound = slower(limits, drift)
  # Partial rollouts are older than the bound.
  younger = f', or staleness.bound to {bound}' if bound < limits.bound else ''
  return (
    f'At staleness.bound={limits.bound} the policy moves'
    f' {drift.of_update:.2g} nats a token in an update, and {drift.moved:.2g}'
    f' in the {drift.age:.3g} updates between sampling a batch and training on'
    f' it, beyond the clip range of {limits.radius:.2g}, so that old tokens'
    f' teach less: lower role.policy.lr from {limits.rate:g} to below'
    f' {rate:.2g}{younger}'
  )


class TooFast:
  """Watches the RL steps of a run, of all its seeds; says it once."""

  def __init__(self, limits: Limits, say: Callable[[str], None]):
    """Takes what the run has set, and what writes a line for the user."""
    self._limits, self._say, self._said = limits, say, False
    self._rows: collections.deque = collections.deque(maxlen=STEPS)

  def see(self, scalars: Mapping[str, Any]) -> None:
    """Takes the metrics of a step; those without an age are left out."""
    names = f'{self._limits.term}/approx_kl', 'rollout/age'
    if self._said or not all(name in scalars for name in names):
      return
    # None of a seed that lacks a number.
    self._rows.append([np.atleast_1d(scalars[x]).astype(float) for x in names])
    if len(self._rows) < STEPS:
      return
    drift = farthest(np.array(self._rows))
    if drift and drift.moved > self._limits.radius:
      self._said = True
      self._say(sentence(self._limits, drift))


def farthest(rows: np.ndarray) -> Drift | None:
  """Returns the drift of the seed that moves most; None where none has aged.

  Args:
    rows: [steps, 2, seeds], KL in nats and age in updates; NaN: unknown
  """
  known = np.isfinite(rows).all(1)
  count = np.maximum(known.sum(0), 1)
  kl, age = np.where(known[:, None], rows, 0).sum(0) / count
  kl = np.where(age > 0, np.maximum(kl, 0), 0)
  most = int(np.argmax(kl))
  if not kl[most]:
    return None
  return Drift(moved=math.sqrt(2 * kl[most]), age=float(age[most]))
