import contextlib
import math
import warnings
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.tool.base import ToolError
from agentrl.tool.calculator import Calculator, evaluate

ask = Calculator()


@pytest.mark.parametrize(
  ('expression', 'want'),
  [
    ('1 + 2 * 3', '7'),
    ('-(2 ** 10) // 3', '-342'),
    ('2 ** 200', str(2**200)),
    ('2 ** -2', '1/4 ≈ 0.25'),
    ('0.1 + 0.2', '3/10 ≈ 0.3'),
    ('0.1234567890123456789 * 10 ** 19', '1234567890123456789'),
    ('1e3 + 0x10 + 1_000', '2016'),
    ('7 % 3 + -7 % 3', '3'),
    ('1 / 3', '1/3 ≈ 0.333333333333333'),
    ('sqrt(2)', '≈ 1.4142135623731'),
    ('sqrt(9 / 4)', '3/2 ≈ 1.5'),
    ('(9 / 4) ** 0.5 + 2 ** 0.5 * 0', '≈ 1.5'),
    ('round(2 / 3, 2) + floor(-0.5) + ceil(0.5)', '67/100 ≈ 0.67'),
    ('max(1, 2 / 3) + min(1, 2) + sum(1, 2, 3) + abs(-1)', '9'),
    ('gcd(12, 18) + lcm(4, 6) + comb(5, 2) + factorial(5)', '148'),
    ('sin(pi / 2) + log(e) + exp(0)', '≈ 3'),
    ('1 ** (10 ** 20)', '1'),
    ('10 ** 3000 + 1 - 10 ** 3000', '1'),
  ],
)
def test_it_computes(expression, want):
  assert ask(expression=expression) == want


@pytest.mark.parametrize(
  ('expression', 'why'),
  [
    ('', 'is invalid'),
    ('1 +', 'is invalid'),
    ('1 / (2 - 2)', 'division by zero'),
    ('0 ** -1', 'division by zero'),
    ('10 ** 10 ** 10', 'digits'),
    ('9 ** 9 ** 9 ** 9', 'digits'),
    ('(10 ** 3000) * (10 ** 3000)', 'digits'),
    ('1e999999999', 'too large'),
    ('2.0 ** 0.5 * 1e308 * 1e308', 'too large'),
    ('exp(1000)', 'range'),
    ('factorial(10 ** 6)', 'at most 1000'),
    ('factorial(-1)', 'negative'),
    ('factorial(1.5)', '3/2 ≈ 1.5 is not an integer'),
    ('comb(10 ** 9, 5)', 'at most 10000'),
    ('round(1, 10 ** 9)', 'at most 1000'),
    ('sqrt(-1)', 'no real root'),
    ('(-8) ** (1 / 3)', 'no real power'),
    ('log(0)', 'log(0) is not a real number'),
    ('1 + True', "'True'"),
    ('1j', "'1j'"),
    ('"a" * 3', '\'"a"\''),
    ('__import__("os")', '__import__'),
    ('(1).__class__', '__class__'),
    ('[1, 2][0]', '[1, 2]'),
    ('x := 3', 'is invalid'),
    ('sqrt(x=4)', 'sqrt(x=4)'),
    ('sqrt(1, 2)', 'argument'),
    ('-' * 990 + '1', 'nested'),
    ('(' * 300 + '1' + ')' * 300, 'is invalid'),
    ('1' * 1001, '1000 characters, got 1001'),
    ('1\x00', ''),
  ],
)
def test_it_says_why_there_is_no_answer(expression, why):
  with pytest.raises(ToolError) as caught:
    ask(expression=expression)
  assert caught.value.kind == 'error'
  assert why in caught.value.text
  assert caught.value.text.startswith('The calculator failed: ')


fractions = st.fractions(max_denominator=1000).filter(lambda x: abs(x) < 10**9)


@settings(max_examples=50, deadline=None)
@given(a=fractions, b=fractions, c=fractions)
def test_fractions_are_exact(a, b, c):
  text = f'({a}) * ({b}) - ({c}) / 7 + ({a}) ** 3'
  assert evaluate(text) == a * b - c / 7 + a**3


@settings(max_examples=50, deadline=None)
@given(a=st.integers(-(10**9), 10**9), b=st.integers(-(10**9), 10**9))
def test_division_is_that_of_python(a, b):
  if b:
    assert evaluate(f'({a}) // ({b})') == a // b
    assert evaluate(f'({a}) % ({b})') == a % b


@settings(max_examples=30, deadline=None)
@given(n=st.integers(0, 10**20))
def test_roots_of_squares_are_exact(n):
  assert evaluate(f'sqrt({n * n})') == Fraction(n)
  assert math.isclose(evaluate(f'sqrt({n * n + 1}.5)'), math.sqrt(n * n + 1.5))


def test_what_an_agent_writes_warns_nobody():
  with warnings.catch_warnings(record=True) as seen:
    for text in ('3and 4', '1 is 1', '2if 1else 3', '1 (2)'):
      with contextlib.suppress(ToolError):
        evaluate(text)
  assert not seen
