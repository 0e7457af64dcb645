"""EPIC: a distance of reward functions, invariant to shaping.

Gleave et al., Quantifying Differences in Reward Functions, arXiv 2006.13900.
Two rewards that differ by potential-based shaping, a positive factor and a
constant have distance 0; a reward and its negative have distance 1. Rewards
are tables over a finite MDP, so every expectation is exact; float64 on the
host.
"""

from collections.abc import Sequence

import numpy as np

_CONSTANT = 1e-12  # of the variance, beside the mean square
_ROUNDING = 1e-13  # of a canonical reward, beside the largest reward


def canonical(
  reward: np.ndarray,
  states: np.ndarray,
  actions: np.ndarray,
  *,
  gamma: float,
) -> np.ndarray:
  """Computes C(R)(s, a, s') = R(s, a, s')
    + E[γ R(s', A, S') − R(s, A, S') − γ R(S, A, S')],  A ~ D_A,  S, S' ~ D_S

  It is invariant to potential-based shaping.

  Args:
    reward: [S, A, S], R(s, a, s')
    states, actions: [S], [A], the distributions D_S and D_A
    gamma: γ, in [0, 1]

  Returns: [S, A, S]

  Raises:
    ValueError: shapes do not match, or weights are invalid.
  """
  r = np.asarray(reward, np.float64)
  s, a = _distribution(states), _distribution(actions)
  if r.shape != (s.size, a.size, s.size):
    raise ValueError(
      f'a reward over {s.size} states and {a.size} actions must have shape'
      f' {(s.size, a.size, s.size)}, got {r.shape}'
    )
  from_state = np.einsum('iaj,a,j->i', r, a, s)  # E[R(s, A, S')]
  offset = gamma * (s @ from_state)
  return r + gamma * from_state[None, None] - from_state[:, None, None] - offset


def pearson_distance(
  x: Sequence[float] | np.ndarray,
  y: Sequence[float] | np.ndarray,
  weights: np.ndarray | None = None,
) -> float:
  """Computes √((1 − ρ) / 2), ρ the weighted correlation of x and y.

  0 if y is an increasing line of x, 1 if a decreasing one.

  Args:
    x, y: arrays of one shape
    weights: of that shape, not negative; None: uniform

  Raises:
    ValueError: shapes differ, or one of the two is constant.
  """
  a, b = (np.asarray(v, np.float64) for v in (x, y))
  w = np.ones(a.shape) if weights is None else np.asarray(weights, np.float64)
  if not a.shape == b.shape == w.shape:
    raise ValueError(
      'arrays and weights must have one shape, got'
      f' {a.shape}, {b.shape} and {w.shape}'
    )
  w = _distribution(w.ravel()).reshape(w.shape)
  a, b = _standard(a, w), _standard(b, w)
  # Of the standardised difference: 1 − ρ would lose half of the digits.
  return float(np.sqrt(min(np.sum(w * (a - b) ** 2) / 4, 1.0)))


def distance(
  a: np.ndarray,
  b: np.ndarray,
  states: np.ndarray,
  actions: np.ndarray,
  *,
  gamma: float,
  transitions: np.ndarray | None = None,
) -> float:
  """Computes D(R_a, R_b) = √((1 − ρ(C(R_a)(S, A, S'), C(R_b)(S, A, S'))) / 2)

  Args:
    a, b: [S, A, S], the rewards
    states, actions, gamma: as of `canonical`
    transitions: [S, A, S], frequency of each transition; None: S, A and S' are
      independent, D_S × D_A × D_S

  Raises:
    ValueError: as of `canonical`, or a canonical reward is constant, as for
      pure shaping.
  """
  x, y = (
    _rounded(canonical(r, states, actions, gamma=gamma), np.max(np.abs(r)))
    for r in (a, b)
  )
  if transitions is None:
    s, acts = _distribution(states), _distribution(actions)
    transitions = s[:, None, None] * acts[:, None] * s
  return pearson_distance(x, y, transitions)


def _rounded(x: np.ndarray, scale: float) -> np.ndarray:
  """Removes rounding errors of numbers at that scale from x."""
  return np.where(np.abs(x) <= _ROUNDING * scale, 0.0, x)


def _standard(x: np.ndarray, w: np.ndarray) -> np.ndarray:
  """Standardizes to mean 0 and variance 1 under the weights."""
  centred = x - np.sum(w * x)
  variance = np.sum(w * centred**2)
  if variance <= _CONSTANT * np.sum(w * x**2):
    raise ValueError(
      'rewards must not be constant: their correlation is undefined'
    )
  return centred / np.sqrt(variance)


def _distribution(weights: np.ndarray) -> np.ndarray:
  """Normalizes the weights to add up to 1."""
  w = np.asarray(weights, np.float64)
  if w.ndim != 1 or not w.size or np.any(w < 0) or not 0 < w.sum() < np.inf:
    raise ValueError(f'weights must be numbers >= 0, not all 0, got {w!r}')
  return w / w.sum()
