"""Names of Python objects: equal for equal ones, and only for those."""

import collections
import copy
import dataclasses
import datetime
import decimal
import functools
import linecache
import math
import pathlib
import re
import subprocess
import sys
import threading

import numpy as np
import pytest

from agentrl.runtime import objects
from tests import errors

HERE = __name__


def shout(x):
  return x.upper()


class Whisper:
  def softly(self, x):
    return x.lower()


def defined(source, cell=''):
  """Returns `f` of a program that no module is; a cell has a source."""
  names, file = {'__name__': '__main__'}, cell or '<none>'
  if cell:
    lines = source.splitlines(keepends=True)
    linecache.cache[cell] = len(source), None, lines, cell
  exec(compile(source, file, 'exec'), names)
  return names['f']


@pytest.mark.parametrize(
  ('x', 'name'),
  [
    (shout, f'{HERE}:shout'),
    (Whisper, f'{HERE}:Whisper'),
    (Whisper.softly, f'{HERE}:Whisper.softly'),
    (math.isfinite, 'math:isfinite'),
  ],
)
def test_what_can_be_imported_has_that_name(x, name):
  assert objects.name_of(x) == name
  assert objects.load(name) is x
  assert not objects.is_local(name)


def test_others_are_found_in_this_program_alone():
  f = defined('f = lambda x: x')
  name = objects.name_of(f)
  assert objects.is_local(name)
  assert not objects.is_missing(name)
  assert objects.load(name) is f
  lost = 'object:lambda-00000000'
  assert objects.is_missing(lost)
  with errors.raises(objects.MissingError, f'{lost} agentrl.Run'):
    objects.load(lost)


def adder(n):
  return lambda x: x + n


BASE = 'K = 1\ndef g(x):\n  return x\ndef f(x, y=1, *, z=1):\n  return g(x) * K'
CLASS = (
  'class f:\n  size = 1\n  def run(self):\n    return [lambda: self.size]\n'
)
SAME = {
  'twice': (defined(BASE), defined(BASE)),
  'class': (defined(CLASS), defined(CLASS)),
  'comments': (
    defined(BASE, '<cell 1>'),
    defined(BASE.replace('y=1,', 'y = 1,').replace(':', ':  # so'), '<cell 2>'),
  ),
  'closures': (adder(1), adder(1)),
  'partial': (functools.partial(shout, 1), functools.partial(shout, 1)),
}
DIFFERENT = {
  'source': (
    defined(BASE, '<cell 3>'),
    defined(BASE.replace('g(x) *', 'g(x) -'), '<cell 4>'),
  ),
  'code': (defined(BASE), defined(BASE.replace('g(x) *', 'g(-x) *'))),
  'default': (defined(BASE), defined(BASE.replace('y=1', 'y=2'))),
  'keyword': (defined(BASE), defined(BASE.replace('z=1', 'z=2'))),
  'constant': (defined(BASE), defined(BASE.replace('K = 1', 'K = 2'))),
  'helper': (defined(BASE), defined(BASE.replace('  return x', '  return -x'))),
  'closure': (adder(1), adder(2)),
  'lambdas of a line': (lambda x: x, lambda x: -x),
  'attribute': (defined(CLASS), defined(CLASS.replace('= 1', '= 2'))),
  'method': (defined(CLASS), defined(CLASS.replace('self.size]', 'self]'))),
  'partial': (functools.partial(shout, 1), functools.partial(shout, 2)),
}


@pytest.mark.parametrize('case', SAME)
def test_equal_objects_have_one_name(case):
  one, other = SAME[case]
  assert objects.name_of(one) == objects.name_of(other)


@pytest.mark.parametrize('case', DIFFERENT)
def test_objects_that_differ_have_two_names(case):
  one, other = DIFFERENT[case]
  assert objects.name_of(one) != objects.name_of(other)


def test_an_object_is_told_by_its_class_and_its_attributes():
  @dataclasses.dataclass
  class Above:
    least: float

    def __call__(self, x):
      return x > self.least

  names = [objects.name_of(Above(x)) for x in (0.5, 0.5, 0.7)]
  assert names[0] == names[1] != names[2]


def test_a_function_that_calls_itself_has_a_name():
  assert objects.name_of(defined('def f(x):\n  return f(x)'))


SCRIPT = """
import dataclasses
from agentrl.runtime import objects

LIMITS = (1, 'two', frozenset({'a', 'b', 'c'}))
SEEN = []

def helper(x):
  return x in {'p', 'q', 'r'} or x in LIMITS

@dataclasses.dataclass(frozen=True)
class Family:
  span: int = 3
  def env(self):
    return helper(self.span)

SEEN.append(objects.name_of(Family))
print(SEEN[0], objects.name_of(lambda c, row: helper(c)))
"""


def test_a_name_is_the_same_in_another_program(tmp_path):
  """Whatever the order of sets."""
  file = tmp_path / 'script.py'
  file.write_text(SCRIPT, encoding='utf-8')
  said = {
    subprocess.run(
      [sys.executable, str(file)],
      env={'PYTHONHASHSEED': seed, 'PYTHONPATH': ':'.join(sys.path)},
      capture_output=True,
      text=True,
      check=True,
    ).stdout
    for seed in ('1', '2')
  }
  assert len(said) == 1
  assert said.pop().count('object:') == 2


@pytest.mark.parametrize(
  ('one', 'other'),
  [
    (np.zeros(5000), np.ones(5000)),
    (np.zeros((2, 3)), np.zeros((3, 2))),
    (np.float32(1), np.float32(2)),
    (pathlib.PurePath('a'), pathlib.PurePath('b')),
    (decimal.Decimal(1), decimal.Decimal(2)),
    (datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)),
    (re.compile('a'), re.compile('b')),
    (collections.deque([1]), collections.deque([2])),
    (range(3), range(4)),
  ],
)
def test_a_closed_over_value_is_part_of_the_name(one, other):
  def named(value):
    def f():
      return value

    return objects.name_of(f)

  assert named(one) == named(copy.deepcopy(one))
  assert named(one) != named(other)


def test_an_object_that_stands_for_a_resource_has_a_name():
  lock = threading.Lock()
  assert objects.name_of(lambda: lock)
