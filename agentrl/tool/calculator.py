"""Exact arithmetic on integers and fractions of any size."""

import ast
import math
import operator
from collections.abc import Callable
from fractions import Fraction

from agentrl.text import safe_ast as written
from agentrl.tool.base import ToolError
from agentrl.tool.schema import schema

Number = Fraction | float

_LONGEST = 1000  # characters of an expression
_BITS = 10_000  # of a number: about 3,000 digits
_FACTORIAL = 1000
_DIGITS = 15  # of a decimal that is only near

_OPERATORS: dict[type, Callable] = {
  ast.Add: operator.add,
  ast.Sub: operator.sub,
  ast.Mult: operator.mul,
  ast.Div: operator.truediv,
  ast.FloorDiv: operator.floordiv,
  ast.Mod: operator.mod,
}


class Calculator:
  """Evaluates an expression; inexact results are marked with ≈."""

  name = 'calculator'
  description = (
    'Computes an expression exactly: + - * / // % **, parentheses, pi, e, and'
    ' abs, round, floor, ceil, min, max, sum, gcd, lcm, comb, factorial, sqrt,'
    ' exp, log, log2, log10, sin, cos, tan.'
  )
  schema = schema(['expression'], expression='string')

  def __call__(self, expression: str) -> str:
    return show(evaluate(expression))


def evaluate(expression: str) -> Number:
  """Evaluates to an exact Fraction, or a float for irrational results.

  Raises:
    ToolError: of kind error, with a sentence for the agent.
  """
  if len(expression) > _LONGEST:
    raise _wrong(
      f'the expression must have at most {_LONGEST} characters, got'
      f' {len(expression)}'
    )
  try:
    return _value(written.tree(expression.strip()), expression.strip())
  except SyntaxError as error:
    raise _wrong(f'the expression is invalid ({error.msg})') from error
  except ZeroDivisionError as error:
    raise _wrong('division by zero') from error
  except (RecursionError, MemoryError) as error:
    raise _wrong('the expression is nested too deeply') from error
  except (ValueError, OverflowError, TypeError) as error:
    raise _wrong(str(error)) from error


def show(value: Number) -> str:
  """Formats as 12, 1/3 ≈ 0.333333333333333 or ≈ 1.4142135623731."""
  if isinstance(value, float):
    return f'≈ {value:.{_DIGITS}g}'
  if value.denominator == 1:
    return str(value.numerator)
  exact = f'{value.numerator}/{value.denominator}'
  try:
    return f'{exact} ≈ {float(value):.{_DIGITS}g}'
  except OverflowError:
    return exact


def _wrong(why: str) -> ToolError:
  return ToolError('error', f'The calculator failed: {why}.')


def _value(node: ast.expr, text: str) -> Number:
  return _bounded(_unbounded(node, text))


def _unbounded(node: ast.expr, text: str) -> Number:
  match node:
    case ast.Constant(value=int() | float()) if not isinstance(
      node.value, bool
    ):
      return _literal(ast.get_source_segment(text, node) or '')
    case ast.UnaryOp(op=ast.USub()):
      return -_value(node.operand, text)
    case ast.UnaryOp(op=ast.UAdd()):
      return _value(node.operand, text)
    case ast.BinOp(op=ast.Pow()):
      return _power(_value(node.left, text), _value(node.right, text))
    case ast.BinOp() if type(node.op) in _OPERATORS:
      left, right = _value(node.left, text), _value(node.right, text)
      return _OPERATORS[type(node.op)](left, right)
    case ast.Name(id='pi' | 'e'):
      return math.pi if node.id == 'pi' else math.e
    case ast.Call(func=ast.Name(id=name), keywords=[]) if name in _FUNCTIONS:
      return _FUNCTIONS[name](*(_value(arg, text) for arg in node.args))
  part = ast.get_source_segment(text, node) or text
  raise ValueError(f'unknown number, operator or function {part[:60]!r}')


def _literal(text: str) -> Fraction:
  """Parses a number exactly: 0.1 is a tenth."""
  _, _, exponent = text.lower().partition('e')
  if text[:2].lower() in ('0x', '0o', '0b'):
    return Fraction(int(text, 0))
  if exponent and abs(int(exponent)) > _BITS:
    raise ValueError(f'{text} has too large an exponent')
  return Fraction(text.replace('_', ''))


def _bits(value: Fraction) -> int:
  return max(value.numerator.bit_length(), value.denominator.bit_length())


def _bounded(value: Number | int) -> Number:
  if isinstance(value, float):
    if not math.isfinite(value):
      raise ValueError('a number is too large')
    return value
  if _bits(value := Fraction(value)) > _BITS:
    raise ValueError(
      f'a number has more than {int(_BITS * math.log10(2))} digits'
    )
  return value


def _power(base: Number, exponent: Number) -> Number:
  """Computes a power, exact for integer exponents; checks its size first."""
  if isinstance(base, Fraction) and isinstance(exponent, Fraction):
    if exponent.denominator == 1:
      if _bits(base) > 1 and _bits(base) * abs(exponent) > 2 * _BITS:
        raise ValueError(
          f'a power has more than {int(_BITS * math.log10(2))} digits'
        )
      return base**exponent.numerator
    if exponent == Fraction(1, 2):
      return _root(base)
  if base < 0:
    raise ValueError(f'{show(base)} has no real power {show(exponent)}')
  return float(base) ** float(exponent)


def _root(x: Number) -> Number:
  """Computes a square root, exact for squares of fractions."""
  if x < 0:
    raise ValueError(f'{show(x)} has no real root')
  if isinstance(x, Fraction):
    roots = math.isqrt(x.numerator), math.isqrt(x.denominator)
    if roots[0] ** 2 == x.numerator and roots[1] ** 2 == x.denominator:
      return Fraction(*roots)
  return math.sqrt(x)


def _integer(x: Number, most: int | None = None) -> int:
  if x != int(x):
    raise ValueError(f'{show(x)} is not an integer')
  if most is not None and not -most <= x <= most:
    raise ValueError(f'{show(x)} must be at most {most} here')
  return int(x)


def _round(x: Number, digits: Number = Fraction(0)) -> Number:
  places = _integer(digits, 1000)
  rounded: Number = x.__round__(places)
  return rounded


def _real(name: str) -> Callable[[Number], float]:
  function = getattr(math, name)

  def real(x: Number) -> float:
    try:
      return function(x)
    except ValueError as error:
      raise ValueError(f'{name}({show(x)}) is not a real number') from error

  return real


_FUNCTIONS: dict[str, Callable] = {
  'abs': abs,
  'round': _round,
  'floor': math.floor,
  'ceil': math.ceil,
  'min': min,
  'max': max,
  'sum': lambda *xs: sum(xs),
  'gcd': lambda *xs: math.gcd(*map(_integer, xs)),
  'lcm': lambda *xs: math.lcm(*map(_integer, xs)),
  'comb': lambda n, k: math.comb(_integer(n, _BITS), _integer(k, _BITS)),
  'factorial': lambda n: math.factorial(_integer(n, _FACTORIAL)),
  'sqrt': _root,
  **{
    name: _real(name)
    for name in ('exp', 'log', 'log2', 'log10', 'sin', 'cos', 'tan')
  },
}
