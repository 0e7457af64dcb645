"""Paired statistics of two arms of a comparison; float64 on the host.

Both arms of a pair share warm start and keys; entry i of `a` pairs with entry i
of `b`. A failed run is NaN: it is counted, and left out of means.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import optimize, stats

from agentrl.stats import intervals

VERDICTS = ('confirmed', 'smaller than claimed', 'not seen', 'refuted')


class Paired(NamedTuple):
  """Difference a − b over the pairs in which both arms finished."""

  n: int
  failed: tuple[int, int]  # runs of a, of b
  mean: float
  low: float  # Student's interval of the mean
  high: float
  median: float
  better: float  # probability of improvement, ties one half
  correlation: float  # of the arms over pairs; 0 if one is constant
  sd: float  # of the difference
  p: float  # two-sided, of mean 0


def compare(
  a: Sequence[float], b: Sequence[float], level: float = 0.95
) -> Paired:
  """Compares two arms; ValueError for different lengths or fewer than 2 pairs.

  p = 2 P(T > |mean| / (sd / √n)), T Student's with n − 1 degrees of freedom.
  """
  x, y = (np.asarray(v, np.float64) for v in (a, b))
  if x.shape != y.shape or x.ndim != 1:
    raise ValueError(
      f'arms must have the same seeds, got shapes {x.shape} and {y.shape}'
    )
  whole = np.isfinite(x) & np.isfinite(y)
  failed = int(np.sum(~np.isfinite(x))), int(np.sum(~np.isfinite(y)))
  if np.sum(whole) < 2:
    raise ValueError(
      'at least 2 pairs must finish in both arms, got'
      f' {int(np.sum(whole))} of {x.size}; run more seeds'
    )
  x, y = x[whole], y[whole]
  d = x - y
  low, high = intervals.mean_interval(d.tolist(), level)
  sd = float(d.std(ddof=1))
  constant = np.ptp(x) == 0 or np.ptp(y) == 0
  if np.ptp(d):
    p = float(stats.ttest_1samp(d, 0.0).pvalue)
  else:
    p = 0.0 if d.any() else 1.0  # a difference without spread has no t
  return Paired(
    n=d.size,
    failed=failed,
    mean=float(d.mean()),
    low=low,
    high=high,
    median=float(np.median(d)),
    better=improvement(x.tolist(), y.tolist()),
    correlation=0.0 if constant else float(np.corrcoef(x, y)[0, 1]),
    sd=sd,
    p=p,
  )


class Equivalence(NamedTuple):
  """One-sided p-values of a mean difference of at least a margin."""

  less: float  # of a − b ≤ −margin: a is not so much lower
  more: float  # of a − b ≥ margin: a is not so much higher

  @property
  def p(self) -> float:
    """Larger of the two: two one-sided tests (TOST)."""
    return max(self)


def equivalence(
  a: Sequence[float], b: Sequence[float], margin: float
) -> Equivalence:
  """Runs one-sided t tests of the mean of a − b against ± margin.

    less = P(T > (margin + d) / s),  more = P(T > (margin − d) / s),
    d = mean(a − b),  s = sd(a − b) / √n

  T is Student's with n − 1 degrees of freedom. Where both are below α, the
  interval of level 1 − 2α lies within ± margin (Schuirmann 1987, doi
  10.1007/BF01068419).

  Raises:
    ValueError: as `compare`; margin is not above 0.
  """
  if not margin > 0:
    raise ValueError(f'margin must be above 0, got {margin}')
  x = compare(a, b)
  gaps = np.array([margin + x.mean, margin - x.mean])
  if not x.sd:
    return Equivalence(*(float(gap <= 0) for gap in gaps))
  t = gaps / (x.sd / np.sqrt(x.n))
  return Equivalence(*map(float, stats.t.sf(t, x.n - 1)))


def improvement(a: Sequence[float], b: Sequence[float]) -> float:
  """Estimates P(a > b) + ½ P(a = b) over all pairs of runs.

  Agarwal et al., Deep RL at the Edge of the Statistical Precipice, 2108.13264.
  """
  x, y = np.asarray(a)[:, None], np.asarray(b)[None]
  return float(np.mean((x > y) + 0.5 * (x == y)))


def interquartile_mean(values: Sequence[float]) -> float:
  """Averages the middle half, with fractional edges (2108.13264)."""
  x = np.sort(np.asarray(values, np.float64))
  if not x.size:
    raise ValueError('values must not be empty; run at least one seed')
  return float(x @ _middle_half(x.size))


@functools.cache
def _middle_half(size: int) -> np.ndarray:
  edge = np.clip(np.arange(size + 1) / size, 0.25, 0.75)
  return 2 * np.diff(edge)


def area(steps: Sequence[float], values: Sequence[float]) -> float:
  """Returns the mean height of a learning curve."""
  x, y = (np.asarray(v, np.float64) for v in (steps, values))
  if x.size < 2 or x.shape != y.shape or np.any(np.diff(x) <= 0):
    raise ValueError(
      'a curve must have at least two values at increasing steps, got'
      f' {x.size} steps and {y.size} values'
    )
  return float(np.trapezoid(y, x) / (x[-1] - x[0]))


def steps_to(
  steps: Sequence[float], values: Sequence[float], threshold: float
) -> float:
  """Finds where the curve first reaches the threshold; inf if never.

  Points are interpolated linearly.
  """
  for i, value in enumerate(values):
    if value >= threshold:
      if not i:
        return float(steps[0])
      share = (threshold - values[i - 1]) / (value - values[i - 1])
      return float(steps[i - 1] + share * (steps[i] - steps[i - 1]))
  return float('inf')


def holm(p: Mapping[str, float]) -> dict[str, float]:
  """Adjusts p-values of a family of claims for the family-wise level.

  p_(i) adjusted = max over j ≤ i of min(1, (m − j + 1) p_(j))   (Holm, 1979)
  """
  order = sorted(p, key=lambda name: p[name])
  out, top = {}, 0.0
  for i, name in enumerate(order):
    top = max(top, min(1.0, (len(order) - i) * p[name]))
    out[name] = top
  return {name: out[name] for name in p}


def power(effect: float, sd: float, n: int, alpha: float = 0.05) -> float:
  """Returns the power to detect `effect` in n pairs, two-sided t test.

  P(|T'| > t_{n−1}(1 − α/2)), T' noncentral t with parameter effect √n / sd.
  """
  if n < 2 or sd <= 0:
    raise ValueError(f'n must be at least 2 and sd above 0, got {n} and {sd}')
  shift, df = effect * np.sqrt(n) / sd, n - 1
  bound = stats.t.ppf(1 - alpha / 2, df)
  chance = stats.nct.sf(bound, df, shift) + stats.nct.cdf(-bound, df, shift)
  return float(np.nan_to_num(chance, nan=1.0))  # far out it is not computed


def smallest(sd: float, n: int, alpha: float = 0.05, chance: float = 0.8):
  """Returns the difference that n pairs detect with power `chance`."""
  gap = lambda effect: power(effect, sd, n, alpha) - chance  # noqa: E731
  return optimize.brentq(gap, 0.0, 100 * sd, xtol=1e-12 * sd)


def verdict(
  low: float, high: float, claimed: float, p: float, level: float = 0.95
) -> str:
  """Returns one of VERDICTS on the claim that a − b is `claimed`.

  0 is excluded if the interval lies on the claim's side of it and Holm's p is
  below 1 − level, so 0 is outside the corrected interval too.

    confirmed             0 is excluded
    smaller than claimed  also, the interval lies below half the claim
    refuted               0 is not, the interval lies below half the claim
    not seen              otherwise

  Args:
    low, high: of the interval of this claim alone
    p: Holm's, over the claims of a family
  """
  sign = 1.0 if claimed >= 0 else -1.0
  low, high = sorted((sign * low, sign * high))
  small = high < abs(claimed) / 2
  if low > 0 and p < 1 - level:
    return 'smaller than claimed' if small else 'confirmed'
  return 'refuted' if small else 'not seen'
