"""How a comparison's numbers are written: one format for each kind."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

NOTHING = '–'
_MINUS = '\N{MINUS SIGN}'


class Measure(NamedTuple):
  """What one number of a run is; what is shown is scale × value."""

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


def measure(name: str, told: Mapping[str, Mapping] | None) -> Measure:
  """A measure by its name; one of which nothing is told is shown as it is."""
  about = (told or {}).get(name, {})
  return Measure(
    about.get('label') or name,
    about.get('unit', ''),
    about.get('scale') or 1.0,
    2 if about.get('digits') is None else about['digits'],
  )


def is_number(x: Any) -> bool:
  return isinstance(x, int | float) and math.isfinite(x)


def number(
  x: float | None, digits: int = 2, *, scale: float = 1.0, sign: bool = False
) -> str:
  """Fixed digits, a true minus, a zero without sign; a dash for none."""
  if not is_number(x):
    return NOTHING
  text = f'{scale * x:z.{digits}f}'
  plus = '+' if sign and float(text) > 0 else ''
  return plus + text.replace('-', _MINUS)


def p_value(p: float | None) -> str:
  return '< 0.001' if is_number(p) and p < 0.001 else number(p, 3)


def rate(x: float | None) -> str:
  """A learning rate as one would type it: 3e-4."""
  if not is_number(x):
    return NOTHING
  digits, power = f'{x:.2e}'.split('e')
  return f'{float(digits):g}e{int(power)}' if x else '0'


def count(x: float | None) -> str:
  """Three digits of a large number: 1.6e5 is 160k."""
  if not is_number(x):
    return NOTHING
  for size, letter in ((1e9, 'B'), (1e6, 'M'), (1e3, 'k')):
    # 999 999 is 1M, not 1e+03k
    if abs(x) >= 0.9995 * size:
      return f'{x / size:.3g}{letter}'
  return f'{x:.0f}'


def duration(seconds: float | None) -> str:
  if not is_number(seconds):
    return NOTHING
  if seconds < 90:
    return f'{seconds:.0f} s'
  if seconds < 90 * 60:
    return f'{seconds / 60:.1f} min'
  return f'{seconds / 3600:.1f} h'


def any_value(x: Any) -> str:
  """A value of unknown kind."""
  if x is None:
    return NOTHING
  if isinstance(x, bool) or not isinstance(x, float):
    return str(x)
  return f'{x:.3g}'.replace('-', _MINUS) if math.isfinite(x) else NOTHING
