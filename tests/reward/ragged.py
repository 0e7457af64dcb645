"""Trajectories of unequal length, in float64, for rewards and plain loops."""

from typing import NamedTuple

import jax
import numpy as np

from agentrl import registry
from agentrl.reward import trajectory
from agentrl.types import RewardInputs, Turns

B, K = 40, 5


class Ragged(NamedTuple):
  """Arrays of rewards, and the same as lists over [trajectory][turn]."""

  turns: Turns
  outcome: np.ndarray  # [B]
  terms: dict[str, list[np.ndarray]]  # of the turns that happened

  @property
  def inputs(self) -> RewardInputs:
    status = np.zeros(len(self.outcome), np.int32)
    return RewardInputs(turns=self.turns, outcome=self.outcome, status=status)


def make(terms, outcome, *, seed=0) -> Ragged:
  """Padding holds noise.

  Args:
    terms: name -> [trajectory][turn]; a trajectory may have no turn at all
    outcome: [trajectory]
  """
  lists = {n: [np.asarray(x, float) for x in xs] for n, xs in terms.items()}
  count = [len(x) for x in next(iter(lists.values()))]
  b, k = len(count), max(*count, 1) + 1
  valid = np.arange(k)[None] < np.array(count)[:, None]
  r = np.random.default_rng(seed)
  tables = {}
  for name, xs in lists.items():
    tables[name] = r.normal(size=(b, k)) * 99
    tables[name][valid] = np.concatenate(xs)
  zero = np.zeros((b, k), np.int32)
  turns = Turns(
    reward=zero,
    terms=tables,
    scored=valid,
    valid=valid,
    state=zero,
    node=zero,
    agent=zero,
  )
  return Ragged(turns, np.asarray(outcome, float), lists)


def random(seed, **terms) -> Ragged:
  """B trajectories of 0 to K turns.

  Args:
    terms: name -> (generator, n) -> [n]
  """
  r = np.random.default_rng(seed)
  count = r.integers(0, K + 1, B)
  count[:3] = 0, 1, K
  values = {name: [f(r, n) for n in count] for name, f in terms.items()}
  outcome = r.choice([0.0, 0.3, 1.0, 1.0 - 1e-9], B)
  return make(values, outcome, seed=seed)


def pay(name: str, case: Ragged, **hp) -> np.ndarray:
  """The reward of every turn, compiled: [B, K]; that of padding is 0."""
  f = registry.bind('reward', name, hp)

  def by_turn(x):
    return trajectory.by_turn(f(x), x.turns)

  with jax.enable_x64(True):
    got = np.asarray(jax.jit(by_turn)(case.inputs))
  assert got.shape == case.turns.valid.shape
  assert got.dtype == np.float64
  assert not got[~case.turns.valid].any()
  return got


def at_end(case: Ragged, values) -> np.ndarray:
  """A value for each trajectory on its last turn, 0 elsewhere: [B, K]."""
  out = np.zeros(case.turns.valid.shape)
  for i, x in enumerate(values):
    n = case.turns.valid[i].sum()
    if n:
      out[i, n - 1] = x
  return out


def alone(case: Ragged) -> Ragged:
  """The same with a judge that failed on every other trajectory."""
  scored = case.turns.valid & (np.arange(len(case.outcome)) % 2 == 0)[:, None]
  return case._replace(turns=case.turns.replace(scored=scored))
