"""Accuracy of credit against a known truth; float64 on the host.

Arrays are over turns, [n] after `valid` was applied, unless said otherwise.
A cell is the turns of equal truth at the same place of their trajectories;
credit differs inside it by what happened on the other turns.
"""

from typing import NamedTuple

import chex
import numpy as np
from scipy import stats

TIE = 1e-5  # of the largest |credit|: float32 sums differ by their order


class Agreement(NamedTuple):
  """bias and noise are in units of the truth's root mean square.

  A method that gives no information has bias 1 and noise 0.
  """

  scale: float  # what credit is multiplied with; 0: none helps
  bias: float  # of the mean credit of each cell, RMS
  noise: float  # standard deviation around that mean, RMS
  rank: float  # Spearman's correlation of credit and truth
  found: float  # groups whose decisive turn has the largest |credit|


def agree(credit, truth, valid, group) -> Agreement:
  """Returns all measures of the credit of one method.

  Args:
    credit, truth: [B, K]
    valid: [B, K] bool
    group: [B] ids
  """
  chex.assert_rank([credit, truth, valid, group], [2, 2, 2, 1])
  credit, truth = settle(credit, valid), np.asarray(truth, np.float64)
  x, t, c = credit[valid], truth[valid], cells(truth)[valid]
  return Agreement(
    *bias_and_noise(x, t, c),
    spearman(x, t),
    top_turn_share(credit, truth, valid, group),
  )


def cells(truth) -> np.ndarray:
  """Returns equal ids [B, K] for equal truth (to six digits) at equal turn."""
  chex.assert_rank(truth, 2)
  _, value = np.unique(np.round(truth, 6), return_inverse=True)
  return value.reshape(truth.shape) * truth.shape[1] + np.arange(truth.shape[1])


def settle(credit, valid) -> np.ndarray:
  """Rounds credit to steps of TIE times its largest size, so that ties tie."""
  x = np.where(valid, np.asarray(credit, np.float64), 0.0)
  step = TIE * np.max(np.abs(x), initial=0.0)
  return np.round(x / step) * step if step else x


def bias_and_noise(x, t, cell) -> tuple[float, float, float]:
  """Returns scale a, bias, noise, by the turns of cells seen at least twice.

  With m_c, s²_c, n_c the mean, unbiased variance and number of the turns of
  cell c, t_c its truth and <.> the mean over cells weighted by n_c:

    a      = max(0, <m t> / <m²>), the best positive scaling of the means
    bias²  = max(0, <(a m - t)²> - a² <s² / n>) / <t²>
    noise² = a² <s²> / <t²>

  The subtraction takes away what the finite number of turns adds on average;
  a is too small where cells are seen a few times only.
  All 0 if no cell was seen twice or the truth is 0 everywhere.
  """
  chex.assert_equal_shape([x, t, cell])
  _, at, n = np.unique(cell, return_inverse=True, return_counts=True)
  mean, truth = (np.bincount(at, y) / n for y in (x, t))
  square = np.bincount(at, np.square(x - mean[at])) / np.maximum(n - 1, 1)
  n = np.where(n > 1, n, 0)

  def over(y):
    return float(np.sum(n * y)) / max(int(n.sum()), 1)

  size = over(truth**2)
  if not size:
    return 0.0, 0.0, 0.0
  power = over(mean**2)
  a = max(0.0, over(mean * truth) / power) if power else 0.0
  wrong = over((a * mean - truth) ** 2) - a**2 * over(square / np.maximum(n, 1))
  return (
    a,
    float(np.sqrt(max(wrong, 0.0) / size)),
    float(np.sqrt(a**2 * over(square) / size)),
  )


def spearman(x, t) -> float:
  """Correlates the ranks, ties at their mean rank; 0 for a constant."""
  chex.assert_equal_shape([x, t])
  if x.size < 2 or np.ptp(x) == 0 or np.ptp(t) == 0:
    return 0.0
  return float(stats.spearmanr(x, t).statistic)


def top_turn_share(credit, truth, valid, group) -> float:
  """Returns the share of groups with most mean |credit| on the decisive turn.

  Decisive is the turn (an index) of largest mean |truth| over the members; m
  turns of equally large credit find it with probability 1 / m, so that the
  same credit for all K turns scores 1 / K. Groups without truth do not count.
  """
  shares = []
  for g in np.unique(group):
    here, ok = group == g, valid[group == g]
    n = np.maximum(ok.sum(axis=0), 1)
    size, true = (
      np.sum(np.where(ok, np.abs(y[here]), 0.0), axis=0) / n
      for y in (credit, truth)
    )
    if not true.max():
      continue
    best = ok.any(axis=0) & (size >= size.max() * (1 - TIE))
    shares.append(best[np.argmax(true)] / best.sum())
  return float(np.mean(shares)) if shares else 0.0
