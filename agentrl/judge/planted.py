"""Planted errors: a judge made wrong on purpose, so that robustness is a curve.

What goes wrong is a function of the content that was judged and of the seed:
equal items err alike, in every run and on every machine.
"""

import hashlib
from typing import NamedTuple

import numpy as np


class PlantedError(NamedTuple):
  """Rates and sizes of what goes wrong; 0 of all: nothing."""

  flip: float = 0.0  # chance that s becomes 1 − s
  false_positive: float = 0.0  # chance that s < 1/2 becomes 1 − s
  noise: float = 0.0  # standard deviation of what is added
  length_bias: float = 0.0  # added to a long message, in full at infinity
  length_scale: float = 100.0  # characters at which half of it is added
  position_bias: float = 0.0  # added to the last turn; to turn k of K: k / K
  refusal: float = 0.0  # chance that there is no score
  delay: float = 0.0  # seconds that an answer takes longer
  seed: int = 0

  @property
  def wrong(self) -> bool:
    """Whether any score changes, or is lost."""
    biases = self.length_bias, self.position_bias
    rates = self.flip, self.false_positive, self.refusal
    return any((*rates, self.noise, *biases))


def draws(key: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
  """Draws uniform numbers [n, 3] and normal ones [n] of contents' ids [n]."""
  uniform, normal = np.empty((len(key), 3)), np.empty(len(key))
  for i, x in enumerate(key.tolist()):
    digest = hashlib.sha256(f'{seed} {x}'.encode()).digest()
    rng = np.random.default_rng(int.from_bytes(digest[:16], 'big'))
    uniform[i, :2], normal[i] = rng.random(2), rng.standard_normal()
    uniform[i, 2] = rng.random()
  return uniform, normal


def distort(
  score: np.ndarray,
  key: np.ndarray,
  length: np.ndarray,
  place: np.ndarray,
  error: PlantedError,
) -> np.ndarray:
  """Returns scores as the wrong judge gives them: [n], NaN where it refuses.

    s' = clip(f(s) + σ z + β_l n / (n + n₀) + β_p k / K, 0, 1)

  f(s) is 1 − s with the chance of a flip, else s, and that is turned round once
  more with the chance of a false positive if it is below 1/2. NaN stays NaN.

  Args:
    score: [n] in [0, 1]; others are left as they are where nothing is wrong
    key: [n], content ids, see item.content_key
    length: [n], characters n of what was judged
    place: [n], k / K in (0, 1], 1 at the end of a trajectory
  """
  if not error.wrong:
    return score
  uniform, normal = draws(key, error.seed)
  out = np.where(uniform[:, 0] < error.flip, 1 - score, score)
  risen = (out < 0.5) & (uniform[:, 2] < error.false_positive)
  out = np.where(risen, 1 - out, out) + error.noise * normal
  out = out + error.length_bias * length / (length + error.length_scale)
  out = np.clip(out + error.position_bias * place, 0, 1)
  return np.where(uniform[:, 1] < error.refusal, np.nan, out)
