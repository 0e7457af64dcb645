"""Numbers of files and lists of them, checked before they become arrays.

JSON has one kind of number, and Python takes True for 1, 1.7 for the token 1
and nan for a reward; here a number is of its own kind and in its range.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from agentrl.domain import WHOLE, Real, Whole

_LARGEST = float(np.finfo(np.float32).max)
# Rounding may leave the log-prob of a certain token just above 0.
_ROUNDING = 1e-5
_WORDS = ('nan', 'inf', '-inf')  # of logs, which are strict JSON


def number(name: str, value: Any, *, low: float = -math.inf) -> float:
  """Returns a finite number as float32. Raises ValueError for another."""
  Real(low).check(name, value)
  return float(np.float32(value))


def logged(name: str, value: Any) -> float:
  """Returns a log's number, finite or not. Raises ValueError for another."""
  if value in _WORDS or isinstance(value, float):
    return float(np.float32(float(value)))
  return number(name, value)


def whole(
  name: str, value: Any, *, low: int = -WHOLE, high: int = WHOLE
) -> int:
  """Returns a whole number. Raises ValueError for another."""
  Whole(low, high).check(name, value)
  return int(value)


def listed(name: str, value: Any) -> list[Any]:
  """Returns a list; ValueError for another value, an empty object too."""
  if not isinstance(value, list):
    raise ValueError(f'{name} must be a list, got {value!r:.80}')
  return value


def token_ids(name: str, values: Any, vocab: int = 0) -> np.ndarray:
  """Returns tokens [N] i32, below `vocab` where that is not 0.

  Raises:
    ValueError: names the first that is no token id.
  """
  return whole_numbers(name, values, 0, vocab - 1 if vocab else WHOLE)


def whole_numbers(
  name: str, values: Any, low: int = -WHOLE, high: int = WHOLE
) -> np.ndarray:
  """Returns whole numbers [N] i32; see `token_ids`."""
  x = _array(name, values, (int,), Whole(low, high))
  return x.astype(np.int32)


def reals(
  name: str,
  values: Any,
  low: float = -math.inf,
  high: float = math.inf,
  *,
  finite: bool = True,
) -> np.ndarray:
  """Returns numbers [N] f32; see `token_ids`."""
  x = _array(name, values, (int, float), Real(low, high), finite)
  return x.astype(np.float32)


def log_probs(name: str, values: Any, *, finite: bool = True) -> np.ndarray:
  """Returns log-probs [N] f32, nats; see `token_ids`."""
  return reals(name, values, high=_ROUNDING, finite=finite)


def _array(
  name: str,
  values: Any,
  kinds: Sequence[type],
  of: Whole | Real,
  finite: bool = True,
) -> np.ndarray:
  """Converts numbers to an array of numpy's own choice, in a domain's range."""
  if not isinstance(values, np.ndarray | list | tuple):
    raise ValueError(f'{name} must be a list of numbers, got {values!r:.80}')
  if isinstance(values, np.ndarray) or {*map(type, values)} <= {*kinds}:
    x = np.asarray(values, None if len(values) else kinds[0])
    # Too large for float64 is an array of objects.
    right = x.dtype.kind in ('iuf' if float in kinds else 'iu') and x.ndim == 1
    most = _LARGEST if finite else math.inf
    if right and np.all((x >= max(of.low, -most)) & (x <= min(of.high, most))):
      return x
  for i, value in enumerate(values):
    of.check(f'{name}[{i}]', value)
  return np.asarray(values)
