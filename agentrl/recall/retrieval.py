"""Retrieval: entries of the most similar tasks, of the best score, or all."""

from typing import Annotated

import jax.numpy as jnp
import numpy as np

from agentrl import domain, registry
from agentrl.memory import texts
from agentrl.ops import counting
from agentrl.recall.base import RecallInputs
from agentrl.runtime import uniform
from agentrl.types import Batch, Metrics

ARMS = ('own', 'shuffled', 'empty')
Arm = Annotated[str, domain.OneOf(*ARMS)]
Heading = Annotated[str, domain.Text('a line')]
Likeness = Annotated[float, domain.Real(-1, 1)]  # a cosine
_ROUNDING = 1e-5  # of a mean of equal returns, none of which is below it


def measure(batch: Batch) -> Metrics:
  """Measures who read a note, and how those ended who did and who did not."""
  live = counting.trajectories(batch).astype(jnp.float32)
  read, _ = texts.entries_read(batch)
  count = jnp.sum(read >= 0, axis=0).astype(jnp.float32)
  some, solved = live * (count > 0), batch.outcome > 0.5
  return {
    'noted': (jnp.sum(some), jnp.sum(live)),
    'notes': (jnp.sum(live * count), jnp.sum(live)),
    'success_noted': (jnp.sum(some * solved), jnp.sum(some)),
    'success_unnoted': (
      jnp.sum((live - some) * solved),
      jnp.sum(live - some),
    ),
  }


@registry.register('recall')
def none(x: RecallInputs) -> np.ndarray:
  """Reads nothing."""
  return np.zeros((len(x.task), 0), np.int64)


@registry.register(
  'recall', needs=('memory:texts', 'env:described'), metrics=measure
)
def nearest(
  x: RecallInputs,
  *,
  k: domain.Count = 1,
  tokens: domain.Count = 64,
  heading: Heading = 'Notes:',
  least: Likeness = 0.1,
  floor: domain.Rate = 0.0,
  arm: Arm = 'own',
) -> np.ndarray:
  """Reads the entries that came from the most similar tasks.

    top k of cos(task, task of the entry) over entries with
      cos >= least and (decisive + 1) / (read + 2) >= floor

  Of equal ones those of the higher score, then the older place.

  Args:
    k: entries that an attempt reads, at most
    tokens: of all that it reads, at most
    heading: line before them; '': none
    least: similarity below which an entry is not read
    floor: score below which an entry is not read
    arm: 'own', or 'shuffled', a placebo: as many entries as by 'own', of the
      same bank, each in the place of another, so that they are of other tasks;
      or 'empty', a control: the bank is written, and not read
  """
  del tokens, heading  # of what is made of it
  score = texts.score(x.bank)
  live = np.asarray((x.bank.length > 0) & (score >= floor))
  close = x.similarity()
  close = np.where(live & (close >= least), close, -np.inf)
  chosen = np.array([top(row, score, k) for row in close])
  return in_arm(x, chosen, live, arm)


def top(value: np.ndarray, score: np.ndarray, k: int) -> np.ndarray:
  """Returns the k largest of [C], of equal ones by score: [k].

  -1 past those that are finite.
  """
  out = np.full(k, -1)
  kth = max(value.size - k, 0)
  large = value >= np.partition(value, kth)[kth]
  able = np.flatnonzero(large & np.isfinite(value))
  order = able[np.lexsort((-score[able], -value[able]))][:k]
  out[: order.size] = order
  return out


@registry.register(
  'recall', needs=('memory:texts', 'env:described'), metrics=measure
)
def reranked(
  x: RecallInputs,
  *,
  k: domain.Count = 2,
  tokens: domain.Count = 64,
  heading: Heading = 'Notes:',
  pool: domain.Count = 30,
  weight: domain.NotNegative = 0.5,
  alike: Likeness = 0.9,
  arm: Arm = 'own',
) -> np.ndarray:
  """Reads entries of similar tasks and high return, repeats only if they excel.

    pool  the largest cos + weight r
    kept  those of the pool with cos < alike or r >= mean + std,
          mean and std of r over the pool
    read  the k of the largest cos that are kept, of equal ones of higher r

  cos is of the task and the task of the entry, r the return of the attempt that
  the entry is; the experience retrieval of Doctor-R1 (2510.04284), whose last
  order is a cross-encoder's.

  Args:
    k: entries that an attempt reads, at most
    tokens: of all that it reads, at most
    heading: line before them; '': none
    pool: entries that are looked at
    weight: of the return in the first choice
    alike: similarity from which an entry has to excel
    arm: as of `nearest`
  """
  del tokens, heading  # of what is made of it
  live, reward = np.asarray(x.bank.length > 0), np.asarray(x.bank.reward)
  chosen = np.full((len(x.task), k), -1)
  for row, close in zip(chosen, x.similarity(), strict=True):
    first = np.where(live, close + weight * reward, -np.inf)
    seen = top(first, reward, min(pool, max(int(live.sum()), 1)))
    seen = seen[seen >= 0]
    if seen.size:
      r = reward[seen]
      excels = np.mean(r) + np.std(r) - _ROUNDING
      kept = seen[(close[seen] < alike) | (r >= excels)]
      left = np.isin(np.arange(close.size), kept)
      row[:] = top(np.where(left, close, -np.inf), reward, k)
  return in_arm(x, chosen, live, arm)


@registry.register('recall', needs=('memory:texts',), metrics=measure)
def drawn(
  x: RecallInputs,
  *,
  k: domain.Count = 1,
  tokens: domain.Count = 64,
  heading: Heading = 'Notes:',
  temperature: domain.Positive = 0.1,
  arm: Arm = 'own',
) -> np.ndarray:
  """Draws entries for each group by their score, without replacement.

    P(entry) ~ exp(score / temperature);   evaluations read the best

  Args:
    k: entries that an attempt reads, at most
    tokens: of all that it reads, at most
    heading: line before them; '': none
    temperature: of the draw
    arm: as of `nearest`
  """
  del tokens, heading  # of what is made of it
  score, live = texts.score(x.bank), np.asarray(x.bank.length > 0)
  shape = len(x.task), len(score)
  noise = gumbel(x, shape) if x.step >= 0 else np.zeros(shape)
  value = np.where(live, score / temperature + noise, -np.inf)
  chosen = np.array([top(row, score, k) for row in value])
  return in_arm(x, chosen, live, arm)


def gumbel(x: RecallInputs, shape: tuple[int, ...]) -> np.ndarray:
  """Draws Gumbel noise of a step: the largest of logit + it is one draw."""
  u = uniform.draw(x.seed, x.step, shape, uniform.UniformStream.NOTES)
  return -np.log(-np.log(u))


@registry.register('recall', needs=('memory:texts',), metrics=measure)
def whole(
  x: RecallInputs,
  *,
  k: domain.Count = 16,
  tokens: domain.Count = 128,
  heading: Heading = 'Notes:',
  arm: Annotated[str, domain.OneOf('own', 'empty')] = 'own',
) -> np.ndarray:
  """Reads the whole bank in its order: every attempt the same list.

  Entries stay where they are when they are rewritten; one that is added takes
  the place of a deleted one, else the end of the list. Training-Free GRPO's
  experiences (2510.08191).

  Args:
    k: entries that an attempt reads, at most, the first of the list
    tokens: of all that it reads, at most
    heading: line before them; '': none
    arm: 'own', or 'empty', a control: the list is written, and not read
  """
  del tokens, heading  # of what is made of it
  live = np.asarray(x.bank.length) > 0
  first, row = np.flatnonzero(live)[:k], np.full(k, -1)
  row[: first.size] = first
  chosen = np.broadcast_to(row, (len(x.task), k)).copy()
  return in_arm(x, chosen, live, arm)


def in_arm(
  x: RecallInputs, chosen: np.ndarray, live: np.ndarray, arm: str
) -> np.ndarray:
  """Returns what is read in an arm, given what is chosen: [G, k]."""
  if arm == 'shuffled':
    return exchanged(x, chosen, live)
  return np.full_like(chosen, -1) if arm == 'empty' else chosen


def exchanged(
  x: RecallInputs, chosen: np.ndarray, live: np.ndarray
) -> np.ndarray:
  """Exchanges entries for others of the bank: each by one permutation.

  It has no fixed point where the bank has two entries, and none is read twice
  by a group that read different ones.
  """
  at = np.flatnonzero(live)
  order = at[uniform.permutation(at.size, x.seed)]
  other = np.full(live.size + 1, -1)
  other[order] = np.roll(order, 1)
  return other[chosen]
