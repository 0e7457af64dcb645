"""Confidence intervals: rates, differences, means, any statistic.

Host numbers in, (low, high) floats out; `level` is the coverage aimed at.
"""

from collections.abc import Callable, Sequence

import numpy as np
from scipy import stats

Interval = tuple[float, float]


def _check_level(level: float) -> None:
  if not 0 < level < 1:
    raise ValueError(f'level={level} is not between 0 and 1; try 0.95')


def wilson(successes: int, n: int, level: float = 0.95) -> Interval:
  """Returns the interval of a success rate by inverting the score test.

      (p + z²/2n ± z √(p(1-p)/n + z²/4n²)) / (1 + z²/n),   p = successes / n

  Never leaves [0, 1] and has width at p = 0 and p = 1; n = 0 knows nothing
  and gives (0, 1). Wilson, "Probable Inference", JASA 1927.

  Raises:
    ValueError: unless 0 <= successes <= n and 0 < level < 1.
  """
  _check_level(level)
  if not 0 <= successes <= n:
    raise ValueError(f'successes={successes} is not between 0 and n={n}')
  if n == 0:
    return 0.0, 1.0
  ends = stats.binomtest(successes, n).proportion_ci(level, 'wilson')
  return float(ends.low), float(ends.high)


def clustered(
  success: Sequence[bool], cluster: Sequence[int], level: float = 0.95
) -> Interval:
  """Returns the interval of a success rate whose trials come in clusters.

  Trials of one cluster, such as the episodes of one task, are alike. With n
  trials y in T clusters, p their mean and s_t = Σ_{i in t} (y_i − p),

      D = T/(T−1) Σ_t s_t² / (n p (1−p)),   in [1, n/T]

  is the variance of p over that of n independent trials (Kish, "Survey
  Sampling", 1965). The interval is Wilson's for n/D trials. D is n/T where the
  trials cannot tell: all of them agree, or T = 1. Without repeated clusters it
  is `wilson`. Of fewer than ten unlike clusters it covers less than its level.

  Args:
    success: [n]
    cluster: [n], equal for trials of one cluster

  Raises:
    ValueError: the two differ in shape.
  """
  _check_level(level)
  y = np.asarray(success, bool)  # [n]
  _, index = np.unique(np.asarray(cluster), return_inverse=True)  # [n]
  if y.shape != index.shape or y.ndim != 1:
    raise ValueError(
      f'success and cluster must be [n], got {y.shape} and {index.shape}'
    )
  n, wins, count = y.size, int(y.sum()), int(index.max(initial=-1)) + 1
  if count == n:
    return wilson(wins, n, level)
  p, most = wins / n, n / count
  effect = most
  if count > 1 and 0 < wins < n:
    s = np.bincount(index, y - p)  # [T]
    effect = count / (count - 1) * np.sum(s**2) / (n * p * (1 - p))
  n /= np.clip(effect, 1, most)
  z = stats.norm.ppf((1 + level) / 2)
  middle = p + z**2 / (2 * n)
  half = z * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
  low, high = (middle + np.array([-half, half])) / (1 + z**2 / n)
  return float(low) if wins else 0.0, float(high) if p < 1 else 1.0


def difference(
  s1: int, n1: int, s2: int, n2: int, level: float = 0.95
) -> Interval:
  """Returns the interval of a difference of independent rates, s1/n1 - s2/n2.

  With (l, u) the Wilson interval of each rate and d = p1 - p2,

      d - √((p1-l1)² + (u2-p2)²)   to   d + √((u1-p1)² + (p2-l2)²)

  Positive when the first is better. Newcombe, "Interval estimation for the
  difference between independent proportions", Stat. Med. 1998, method 10.
  With no episodes on a side, (-1, 1).
  """
  low1, high1 = wilson(s1, n1, level)
  low2, high2 = wilson(s2, n2, level)
  if n1 == 0 or n2 == 0:
    return -1.0, 1.0
  p1, p2 = s1 / n1, s2 / n2
  down = np.hypot(p1 - low1, high2 - p2)
  up = np.hypot(high1 - p1, p2 - low2)
  return float(p1 - p2 - down), float(p1 - p2 + up)


def mean_interval(values: Sequence[float], level: float = 0.95) -> Interval:
  """Returns Student's interval of a mean, e.g. over seeds.

      mean ± t_{n-1} s / √n,   s² = Σ (x - mean)² / (n - 1)

  Raises:
    ValueError: fewer than two values, which have no spread.
  """
  _check_level(level)
  x = np.asarray(values, np.float64)  # [n]
  if x.ndim != 1 or x.size < 2:
    raise ValueError(
      f'an interval of a mean needs a list of at least 2 values; got '
      f'shape {x.shape}; run more seeds'
    )
  t = stats.t.ppf((1 + level) / 2, x.size - 1)
  half = t * stats.sem(x)
  return float(x.mean() - half), float(x.mean() + half)


def mean_difference(
  a: Sequence[float], b: Sequence[float], level: float = 0.95
) -> Interval:
  """Returns Welch's interval of the difference of two independent means, a - b.

      d ± t_ν √(s_a²/n_a + s_b²/n_b),   d = mean(a) - mean(b)

  with ν degrees of freedom after Satterthwaite; the spreads may differ. Welch,
  "The generalization of Student's problem", Biometrika 1947.

  Raises:
    ValueError: fewer than two values on a side.
  """
  _check_level(level)
  x, y = (np.asarray(v, np.float64) for v in (a, b))  # [n_a], [n_b]
  if x.ndim != 1 or y.ndim != 1 or min(x.size, y.size) < 2:
    raise ValueError(
      'an interval of a difference of means needs two lists of at least 2'
      f' values; got shapes {x.shape} and {y.shape}; run more seeds'
    )
  if not (np.ptp(x) or np.ptp(y)):  # no spread, no degrees of freedom
    d = float(x.mean() - y.mean())
    return d, d
  ends = stats.ttest_ind(x, y, equal_var=False).confidence_interval(level)
  return float(ends.low), float(ends.high)


def bootstrap(
  values: Sequence[float],
  statistic: Callable[[np.ndarray], float],
  *,
  seed: int,
  n: int = 10_000,
  level: float = 0.95,
) -> Interval:
  """Resamples n times with replacement: any statistic's percentile interval.

  Args:
    values: [m, ...]; the first axis is what counts once (a trajectory, a
      seed) and is resampled whole.
    statistic: maps an array [m, ...] to a number.
    seed: the same seed gives the same interval.

  Efron, "Bootstrap Methods: Another Look at the Jackknife", 1979.
  """
  _check_level(level)
  x = np.asarray(values)  # [m, ...]
  if x.ndim == 0 or len(x) < 2 or n < 1:
    raise ValueError(
      f'bootstrap needs at least 2 values and n >= 1; got shape {x.shape}, '
      f'n={n}'
    )

  def of_each(picks, axis):  # [..., m] -> [...]; much faster than SciPy's loop
    assert axis == -1
    rows = picks.reshape(-1, len(x))
    return np.reshape([statistic(x[pick]) for pick in rows], picks.shape[:-1])

  ends = stats.bootstrap(
    (np.arange(len(x)),),  # indices: what counts once is drawn whole
    of_each,
    n_resamples=n,
    vectorized=True,
    confidence_level=level,
    method='percentile',
    rng=np.random.default_rng(seed),
  ).confidence_interval
  return float(ends.low), float(ends.high)
