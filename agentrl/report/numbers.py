"""Number formats of a comparison: one for each kind."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeGuard

from agentrl.log import run_summary

NOTHING = '–'
MINUS = '\N{MINUS SIGN}'


class NumberFormat(NamedTuple):
  """One number of a run; shown as scale × value."""

  label: str
  unit: str
  scale: float
  digits: int

  def show(self, x: float | None, sign: bool = False) -> str:
    return number(x, self.digits, scale=self.scale, sign=sign)

  def interval(
    self, low: float | None, high: float | None, sign: bool = False
  ) -> str:
    if not (is_number(low) and is_number(high)):
      return NOTHING
    return f'[{self.show(low, sign)}, {self.show(high, sign)}]'

  @property
  def title(self) -> str:
    return f'{self.label} ({self.unit})' if self.unit else self.label


def measure(name: str, specs: Mapping[str, Mapping] | None) -> NumberFormat:
  """Returns the measure of a name; a number without a spec is shown as is."""
  about = (specs or {}).get(name, {})
  label, scale = about.get('label') or name, about.get('scale') or 1.0
  digits = 2 if about.get('digits') is None else about['digits']
  return NumberFormat(label, about.get('unit', ''), scale, digits)


def is_number(x: object) -> TypeGuard[float]:
  """Returns whether it is a finite number."""
  return isinstance(x, int | float) and math.isfinite(x)


def number(
  x: float | None, digits: int = 2, *, scale: float = 1.0, sign: bool = False
) -> str:
  """Writes fixed digits, a true minus, no sign for zero; a dash for none."""
  if not is_number(x):
    return NOTHING
  text = f'{scale * x:z.{digits}f}'
  plus = '+' if sign and float(text) > 0 else ''
  return plus + text.replace('-', MINUS)


def p_value(p: float | None) -> str:
  return '< 0.001' if is_number(p) and p < 0.001 else number(p, 3)


def rate(x: float | None) -> str:
  """Writes a learning rate as one would type it: 3e-4."""
  if not is_number(x):
    return NOTHING
  digits, power = f'{x:.2e}'.split('e')
  return f'{float(digits):g}e{int(power)}' if x else '0'


def count(x: float | None) -> str:
  """Writes three digits of a large number: 1.6e5 is 160k."""
  return run_summary.count(x) if is_number(x) else NOTHING


def duration(seconds: float | None) -> str:
  return run_summary.duration(seconds) if is_number(seconds) else NOTHING


def any_value(x: Any) -> str:
  """Formats a value of unknown kind."""
  if isinstance(x, float):
    return f'{x:.3g}'.replace('-', MINUS) if math.isfinite(x) else NOTHING
  return NOTHING if x is None else str(x)
