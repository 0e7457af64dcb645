"""Quality of a reward model against the truth; float64 on the host.

Order: `pair_accuracy`, `auroc`. Probabilities: `brier`, `calibration_error`.
Use: `best_of_n`, which finds where choosing by the model stops helping.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import chex
import numpy as np
from scipy import stats


class BestOfN(NamedTuple):
  """What the best of n has at each of T tasks, by n; means over subsets."""

  n: np.ndarray  # [M] i64
  proxy: np.ndarray  # [T, M] score of the one with the largest score
  truth: np.ndarray  # [T, M] true value of that one
  kl: np.ndarray  # [M] nats, log n − (n − 1) / n, from drawing one


def pair_accuracy(win, lose) -> float:
  """Returns the share of pairs whose winner scores higher; a tie counts half.

  Args:
    win, lose: [P] scores
  Raises:
    ValueError: there is no pair.
  """
  win, lose = (np.asarray(x, np.float64) for x in (win, lose))
  chex.assert_rank([win, lose], 1)
  chex.assert_equal_shape([win, lose])
  if not win.size:
    raise ValueError('win must have at least one pair, got none')
  return float(np.mean((win > lose) + 0.5 * (win == lose)))


def auroc(score, label) -> float:
  """Returns P(score of a success > of a failure) + ½ P(equal), over all pairs.

  Args:
    score: [n]
    label: [n] bool
  Raises:
    ValueError: there is no success, or no failure.
  """
  score, label = np.asarray(score, np.float64), np.asarray(label, bool)
  chex.assert_equal_shape([score, label])
  good, bad = int(label.sum()), int((~label).sum())
  if not good or not bad:
    raise ValueError(
      'label must have a success and a failure, got'
      f' {good} successes and {bad} failures'
    )
  rank = stats.rankdata(score)  # equal scores share their mean rank
  above = rank[label].sum() - good * (good + 1) / 2
  return float(above / (good * bad))


def brier(chance, label) -> float:
  """Averages (p − y)²: 0 is perfect, ¼ is p = ½ everywhere.

  Args:
    chance: p [n] in [0, 1]
    label: y [n] bool
  Raises:
    ValueError: there is no chance, or one outside [0, 1].
  """
  chance, label = _chances(chance, label)
  return float(np.mean(np.square(chance - label)))


def calibration_error(chance, label, bins: int = 10) -> float:
  """Returns expected calibration error: Σ_b n_b / n |mean y − mean p|, bins b.

  Bin b has p in [b / bins, (b + 1) / bins), the last one 1, too (Guo et al.,
  1706.04599).

  Args:
    chance: p [n] in [0, 1]
    label: y [n] bool
  Raises:
    ValueError: there is no chance, one outside [0, 1], or no bin.
  """
  if bins < 1:
    raise ValueError(f'bins must be 1 or more, got {bins}')
  chance, label = _chances(chance, label)
  place = np.minimum((chance * bins).astype(int), bins - 1)
  gap = np.bincount(place, chance - label, bins)
  return float(np.sum(np.abs(gap)) / len(chance))


def best_of_n(proxy, truth, n: Sequence[int]) -> BestOfN:
  """Estimates what the best of n has by proxy, of m samples of each task.

    E_n[x] = Σ_i x_(i) C(i, n − 1) / C(m, n),   x_(0) of the smallest score

  The mean over all subsets of n of the m, without a draw (2112.09332, appendix
  I); among equal scores any is as likely. A proxy with errors rises with n
  where the truth may fall: over-optimisation (2210.10760).

  Args:
    proxy, truth: [tasks, m]
    n: sizes, each from 1 to m
  Raises:
    ValueError: an n outside of 1 to m.
  """
  proxy, truth = (np.asarray(x, np.float64) for x in (proxy, truth))
  chex.assert_rank([proxy, truth], 2)
  chex.assert_equal_shape([proxy, truth])
  m = proxy.shape[1]
  if wrong := [k for k in n if not 1 <= k <= m]:
    raise ValueError(
      f'n must be from 1 to {m}, the samples of a task, got {wrong[0]}'
    )
  order = np.argsort(proxy, axis=1, kind='stable')
  score = np.take_along_axis(proxy, order, axis=1)
  value = _level(score, np.take_along_axis(truth, order, axis=1))
  chance = np.array(
    [[math.comb(i, k - 1) / math.comb(m, k) for i in range(m)] for k in n]
  )
  size = np.asarray(n, np.int64)
  return BestOfN(
    n=size,
    proxy=score @ chance.T,
    truth=value @ chance.T,
    kl=np.log(size) - (size - 1) / size,
  )


def _level(score, value) -> np.ndarray:
  """Averages values over equal scores in each row: [tasks, m]."""
  same = score[:, :, None] == score[:, None]
  return np.einsum('tij,tj->ti', same, value) / np.sum(same, axis=2)


def _chances(chance, label) -> tuple[np.ndarray, np.ndarray]:
  chance, label = np.asarray(chance, np.float64), np.asarray(label, bool)
  chex.assert_equal_shape([chance, label])
  if not chance.size or not np.all((chance >= 0) & (chance <= 1)):
    raise ValueError(
      f'chance must be in [0, 1], at least one, got {chance!r:.80}'
    )
  return chance, label
