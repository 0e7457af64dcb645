"""Says that RL steps have no gradient, and what can be done.

Where the members of every group earn the same, each advantage is 0, and the
policy stays as it is however long the run goes on. A gradient from elsewhere,
such as that of a divergence, is one. Steps in which nothing counted, since all
groups wait for a member (collect/partial.py), are neither with nor without.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

STEPS = 5  # in a row without a gradient, after which it is said
_EQUAL = re.compile('advantage/.+/zero_variance_frac')
_INVALID = 'rollout/invalid'
_ATTEMPTS, _RETURN = 'rollout/attempts', 'rollout/return'
ADVICE = (
  'begin with a warm start (demonstrations and sft.steps, or init)',
  'take easier tasks, a larger group_size or temperature of rollout',
  'look at messages and rewards with `view`: is the format right?',
)


class NoGradient:
  """Watches the RL steps of a run; of each of its seeds."""

  def __init__(self, say: Callable[[str], None]):
    """Takes what writes a line for the user."""
    self._say = say
    self._steps: np.ndarray = np.zeros((), np.int32)
    self._rows: list[Mapping[str, Any]] = []

  def see(self, scalars: Mapping[str, Any]) -> None:
    """Takes the metrics of a step; says it once for steps in a row."""
    if is_empty(scalars):
      return
    without = lacks_gradient(scalars)
    self._steps = np.where(without, self._steps + 1, 0)
    self._rows = [*self._rows[1 - STEPS :], scalars]
    if np.any(without & (self._steps == STEPS)):
      what = '; '.join(reasons(self._rows))
      self._say(
        f'{STEPS} RL steps in a row had no gradient, so nothing is learned'
        f'{": " if what else ""}{what}. What helps: {"; ".join(ADVICE)}'
      )


def is_empty(scalars: Mapping[str, Any]) -> bool:
  """Returns whether a step has played and no trajectory of it counted."""
  mean = scalars.get(_RETURN)
  known = mean is not None and np.isfinite(_array(mean)).any()
  return _ATTEMPTS in scalars and not known


def lacks_gradient(scalars: Mapping[str, Any]) -> np.ndarray:
  """Returns whether no role had a gradient: [] or [S], of each seed.

  One that was not finite is another matter.
  """
  if 'policy/grad_norm' not in scalars:
    return np.array(False)
  some = np.array(False)
  for name in scalars:
    if name.endswith(('/grad_norm', '/nonfinite_skips')):
      some = some | (_array(scalars[name]) > 0)
  return ~some


def reasons(rows: Sequence[Mapping[str, Any]]) -> list[str]:
  """Says what was equal, and what not understood, in the mean of the rows."""
  equal = [_mean(row[x]) for row in rows for x in row if _EQUAL.fullmatch(x)]
  invalid = [_mean(row[_INVALID]) for row in rows if _INVALID in row]
  out = []
  for values, text in (
    (equal, 'of groups had equal returns'),
    (invalid, 'of messages were not understood'),
  ):
    if np.isfinite(values).any():
      out.append(f'{np.nanmean(values):.0%} {text}')
  return out


def lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
  """Writes a summary's lines, nothing if gradients were lost now and then."""
  steps = [
    row for row in rows if row.get('phase') == 'rl' and not is_empty(row)
  ]
  without = [bool(lacks_gradient(row)) for row in steps]
  marks = ''.join('x' if x else ' ' for x in without)
  if 'x' * min(STEPS, max(len(steps), 1)) not in marks:
    return
  lost = [row for row, x in zip(steps, without, strict=True) if x]
  yield f'{len(lost)} of {len(steps)} RL steps had no gradient'
  yield from reasons(lost)
  yield from ADVICE


def _array(value: Any) -> np.ndarray:
  """Gathers numbers of all seeds; NaN of a seed that lacks one."""
  return np.asarray(value, float)


def _mean(value: Any) -> float:
  values = _array(value)
  values = values[np.isfinite(values)]
  return float(values.mean()) if values.size else np.nan
