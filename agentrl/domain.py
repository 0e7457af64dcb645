"""Domains: the values that a field may hold, in words and as a check.

A field of a config and a hyper-parameter of a component declare one each:

  keep: Annotated[float, Real(0, 1), 'fraction of groups to keep'] = 0.5

Checks, `--help`, docs/CONFIG.md and docs/COMPONENTS.md all come from these.
"""

import ast
import dataclasses
import difflib
import functools
import inspect
import math
import numbers
import re
import textwrap
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

WHOLE = 2**31 - 1  # the largest that an int32 holds
_NAME = 255  # bytes of a file's name, and characters of others, at most
_SHOWN = 80  # characters of a value in a message


@dataclasses.dataclass(frozen=True)
class Domain:
  """The values that a field may hold."""

  def explain(self) -> str:
    """Returns these values in words, to stand after 'must be'."""
    raise NotImplementedError

  def mistake(self, value: Any, beside: Mapping[str, Any]) -> str:
    """Returns the rule that a value breaks, 'must be ...'; '' if none.

    Args:
      beside: the fields that stand with this one, by name
    """
    raise NotImplementedError

  def check(
    self, field: str, value: Any, beside: Mapping[str, Any] | None = None
  ) -> None:
    """Raises ValueError, one sentence, for a value outside."""
    if rule := self.mistake(value, beside or {}):
      raise ValueError(f'{field} {rule}, got {_shown(value)}')


@dataclasses.dataclass(frozen=True)
class Real(Domain):
  """Numbers from `low` to `high` that a float32 holds.

  above, below: the ends `low`, `high` are excluded
  infinite: inf is allowed
  most: the name of a field beside this one that it does not exceed
  compiled: it chooses the program that is compiled, and follows no schedule
  """

  low: float = -math.inf
  high: float = math.inf
  above: bool = False
  below: bool = False
  infinite: bool = False
  most: str = ''
  compiled: bool = False

  def explain(self) -> str:
    text = _interval('a number', self.low, self.high, self.above, self.below)
    text += f', at most {self.most}' if self.most else ''
    return f'{text}, or inf' if self.infinite else text

  def mistake(self, value: Any, beside: Mapping[str, Any]) -> str:
    rule = f'must be {self.explain()}'
    if not _is_number(value, numbers.Real):
      return rule
    x = _as_float32(value)
    if math.isnan(x):
      return rule
    if math.isinf(x) and not (self.infinite and value == math.inf):
      ends = math.inf, -math.inf
      return rule if value in ends else f'{rule}, finite in float32'
    if x < self.low or (self.above and x <= self.low):
      return rule
    if x > self.high or (self.below and x >= self.high):
      return rule
    return _exceeds(self.most, value, beside)


@dataclasses.dataclass(frozen=True)
class Whole(Domain):
  """Integers from `low` to `high`, and the ones in `also`.

  most: the name of a field beside this one that it does not exceed
  """

  low: int = -WHOLE
  high: int = WHOLE
  also: tuple[int, ...] = ()
  most: str = ''

  def explain(self, *, full: bool = False) -> str:
    low = self.low if self.low > -WHOLE else -math.inf
    high = self.high if full or self.high < WHOLE else math.inf
    text = _interval('an integer', low, high)
    text += f', at most {self.most}' if self.most else ''
    return ', or '.join((text, *map(str, self.also)))

  def mistake(self, value: Any, beside: Mapping[str, Any]) -> str:
    if not _is_number(value, numbers.Integral):
      return f'must be {self.explain()}'
    if value in self.also:
      return ''
    if not self.low <= value <= self.high:
      return f'must be {self.explain(full=value > self.high)}'
    return _exceeds(self.most, value, beside)


@dataclasses.dataclass(frozen=True)
class Flag(Domain):
  """True or False."""

  def explain(self) -> str:
    return 'True or False'

  def mistake(self, value: Any, beside: Mapping[str, Any]) -> str:
    ok = isinstance(value, bool | np.bool_)
    return '' if ok else 'must be True or False'


@dataclasses.dataclass(frozen=True, init=False)
class OneOf(Domain):
  """Some strings."""

  words: tuple[str, ...]

  def __init__(self, *words: str):
    object.__setattr__(self, 'words', words)

  def explain(self) -> str:
    several = 'one of ' if len(self.words) > 1 else ''
    return several + ', '.join(map(repr, self.words))

  def mistake(self, value: Any, beside: Mapping[str, Any]) -> str:
    if isinstance(value, str) and value in self.words:
      return ''
    close = suggest(value, self.words) if isinstance(value, str) else ''
    return f'must be {self.explain()}{close}'


@dataclasses.dataclass(frozen=True)
class Text(Domain):
  """Any string; `what` it is, and whether it may be empty."""

  what: str = 'a string'
  empty: bool = True

  def explain(self) -> str:
    return f"{self.what} or ''" if self.empty else self.what

  def mistake(self, value: Any, beside: Mapping[str, Any]) -> str:
    if not isinstance(value, str):
      return f'must be {self.explain()}'
    if not (self.empty or value.strip()):
      return f'must be {self.what}, not empty'
    if '\0' in value:
      return f'must be {self.explain()} without a zero byte'
    if any('\ud800' <= x <= '\udfff' for x in value):
      return f'must be {self.explain()} without half a surrogate pair'
    return ''


@dataclasses.dataclass(frozen=True)
class Path(Text):
  """A file or a folder of this machine, or of a bucket (gs://)."""

  what: str = 'a path'
  bucket: bool = False

  def mistake(self, value: Any, beside: Mapping[str, Any]) -> str:
    scheme = re.match(r'\w+://', value) if isinstance(value, str) else None
    if scheme and not (self.bucket and scheme.group() == 'gs://'):
      return 'must be a local path' + (' or one on gs://' * self.bucket)
    if rule := super().mistake(value, beside):
      return rule
    if any(len(x.encode()) > _NAME for x in value.split('/')):
      return f'must be a path of names of at most {_NAME} bytes'
    return ''


@dataclasses.dataclass(frozen=True)
class Name(Text):
  """The name of a component, a column, a term or a role."""

  what: str = 'a name'
  empty: bool = False

  def mistake(self, value: Any, beside: Mapping[str, Any]) -> str:
    if isinstance(value, str) and len(value) > _NAME:
      return f'must be {self.what} of at most {_NAME} characters'
    if isinstance(value, str) and re.fullmatch(r'[\w.:-]+', value):
      return ''
    return super().mistake(value, beside) or (
      f'must be {self.what} of letters, digits and _ . : -'
    )


@dataclasses.dataclass(frozen=True)
class Tuple(Domain):
  """Several values of one domain, as a tuple or a list.

  least: fewest values
  length: number of values; 0: any number
  once: values do not repeat
  like: the name of a tuple beside this one that has the same length
  fewer: how many values this one has less than that
  """

  of: Domain = Name()
  least: int = 0
  length: int = 0
  once: bool = False
  like: str = ''
  fewer: int = 0

  def explain(self) -> str:
    count = f'of {self.length}' if self.length else f'of {self.least} or more'
    if self.like:
      shorter = f'{self.fewer} shorter than' if self.fewer else 'as long as'
      count = f'{shorter} {self.like}'
    return f'a tuple {count}, each {self.of.explain()}'

  def mistake(self, value: Any, beside: Mapping[str, Any]) -> str:
    rule = f'must be {self.explain()}'
    if isinstance(value, str):
      names = tuple(re.findall(r'[\w.:-]+', value)) or ('...',)
      return f'must be a tuple such as {names!r}'
    if not isinstance(value, tuple | list) or len(value) < self.least:
      return rule
    if self.length and len(value) != self.length:
      return rule
    for x in value:
      if mistake := self.of.mistake(x, {}):
        return f'holds {_shown(x)}, which {mistake}'
    if self.once and len(set(value)) < len(value):
      return 'must not hold a value twice'
    other = beside.get(self.like)
    if not isinstance(other, tuple | list):
      return ''
    right = len(value) == len(other) - self.fewer
    return '' if right else f'{rule}, beside {self.like}={_shown(other)}'


@dataclasses.dataclass(frozen=True)
class Dominant(Tuple):
  """Positive numbers, each more than the sum of all after it."""

  of: Domain = Real(0, above=True)

  def explain(self) -> str:
    return f'{super().explain()}, more than the sum of the numbers after it'

  def mistake(self, value: Any, beside: Mapping[str, Any]) -> str:
    if rule := super().mistake(value, beside):
      return rule
    for i, x in enumerate(value):
      if x <= (rest := sum(value[i + 1 :])):
        return (
          'must hold numbers that are each more than the sum of those after it'
          f' ({x!r} is not more than {rest:.10g})'
        )
    return ''


class Field(NamedTuple):
  """Declaration of a field."""

  default: Any
  domain: Domain
  meaning: str  # with its unit


# What many fields are.
COUNT = Whole(1)
COUNT0 = Whole(0)
SEED = Whole(0)
POSITIVE = Real(0, above=True)
NOT_NEGATIVE = Real(0)
UNIT = Real(0, 1)
TEMPERATURE = Real(0.01, 100)  # logits divided by less overflow

Seed = Annotated[int, SEED]
Count = Annotated[int, COUNT]
Count0 = Annotated[int, COUNT0]
Number = Annotated[float, Real()]
Positive = Annotated[float, POSITIVE]
NotNegative = Annotated[float, NOT_NEGATIVE]
Share = Annotated[float, Real(0, 1, above=True)]  # above 0 and at most 1
Chance = Annotated[float, UNIT]
Discount = Annotated[float, UNIT]
Rate = Annotated[float, UNIT]
Width = Annotated[float, Real(0, above=True, infinite=True)]  # inf: none
Place = Annotated[str, Path()]
Named = Annotated[str, Name()]
Columns = Annotated[
  tuple[str, ...],
  Tuple(Name('a column'), once=True),
  'columns whose equal values make a cell; (): the whole batch',
]

# Of what is annotated by its type alone, as pieces of a user may be.
_TYPES: dict[Any, Domain] = {
  bool: Flag(),
  int: Whole(),
  float: Real(),
  str: Text(),
}


def suggest(word: str, choices: Iterable[str]) -> str:
  """Returns " (did you mean 'grpo'?)" for 'grop'; '' where nothing is close."""
  close = difflib.get_close_matches(word, list(choices), n=1, cutoff=0.7)
  return f' (did you mean {close[0]!r}?)' if close else ''


def listed(choices: Sequence[str], most: int = 40) -> str:
  """Lists names; of many, which no one reads in a message, the first."""
  more = len(choices) - most
  text = ', '.join(choices[:most])
  return text + f' and {more} more (docs/COMPONENTS.md)' * (more > 0)


def of(annotation: Any) -> Domain | None:
  """Returns the domain that an annotation declares, or None."""
  if typing.get_origin(annotation) is not Annotated:
    return None
  declared = (x for x in annotation.__metadata__ if isinstance(x, Domain))
  return next(declared, None)


@functools.cache
def declared(f: Callable | type) -> dict[str, Domain]:
  """Returns the domains that annotations of a function or dataclass declare."""
  domains = {name: of(hint) for name, hint in _hints(f).items()}
  return {name: x for name, x in domains.items() if x is not None}


def _hints(f: Callable | type) -> dict[str, Any]:
  try:
    return typing.get_type_hints(f, include_extras=True)
  except (NameError, TypeError):  # of a user, who may import names for types
    return {}


@functools.cache
def fields(cls: type) -> dict[str, Field]:
  """Returns the fields of a dataclass that have a domain, by name.

  The meaning is a text in the annotation, else the comment beside the field.
  """
  out, hints = {}, _hints(cls)
  for field in dataclasses.fields(cls):
    hint = hints.get(field.name)
    declared = of(hint)
    if domain := declared or like(field.default):
      meaning = _text(hint) or comments(cls).get(field.name, '')
      out[field.name] = Field(field.default, domain, meaning)
  return out


def _text(annotation: Any) -> str:
  """Returns the text in an annotation, or ''."""
  if typing.get_origin(annotation) is not Annotated:
    return ''
  texts = (x for x in annotation.__metadata__ if isinstance(x, str))
  return next(texts, '')


@functools.cache
def meanings(f: Callable) -> dict[str, str]:
  """Returns what the arguments of a function mean, by name.

  The Args of its docstring say so, else a text in the annotation.
  """
  _, _, args = (inspect.getdoc(f) or '').partition('\nArgs')
  entries = re.findall(
    r'^  (\w[\w, ]*): (.*(?:\n {4,}.*)*)', args, re.MULTILINE
  )
  said = {
    name: ' '.join(meaning.split())
    for names, meaning in entries
    for name in names.split(', ')
  }
  return {name: _text(hint) for name, hint in _hints(f).items()} | said


def check_all(
  fields: Mapping[str, Field],
  values: Mapping[str, Any],
  at: Callable[[str], str],
) -> None:
  """Checks the values that are there against the domains of their fields.

  Args:
    at: path of a field, for the message
  Raises:
    ValueError: a value is outside.
  """
  for name, field in fields.items():
    if field.domain and name in values:
      field.domain.check(at(name), values[name], values)


def check_fields(made: Any) -> None:
  """Checks the fields of a dataclass against the domains that they declare.

  Raises:
    ValueError: one is outside of its own.
  """
  fields = dataclasses.asdict(made)
  cls: type = type(made)
  for name, x in declared(cls).items():
    x.check(name, fields[name], fields)


@functools.cache
def comments(cls: type) -> dict[str, str]:
  """Returns the comments beside fields of a dataclass, inherited ones too."""
  inherited: dict[str, str] = {}
  for base in filter(dataclasses.is_dataclass, cls.__bases__):
    inherited |= comments(base)
  try:
    source = textwrap.dedent(inspect.getsource(cls))
  except (OSError, TypeError):  # it was written in a console
    return inherited
  (tree,), lines = ast.parse(source).body, source.splitlines()
  assert isinstance(tree, ast.ClassDef)
  return inherited | {
    ast.unparse(x.target): ' '.join(
      line.partition('  # ')[2] for line in lines[x.lineno - 1 : x.end_lineno]
    ).strip()
    for x in tree.body
    if isinstance(x, ast.AnnAssign)
  }


def like(value: Any) -> Domain | None:
  """Returns the domain of the type of a value; None: anything."""
  return _TYPES.get(type(value))


def _is_number(value: Any, kind: type) -> bool:
  return isinstance(value, kind) and not isinstance(value, bool | np.bool_)


def _as_float32(value) -> float:
  """Returns the number as it computes; inf where it is too large."""
  try:
    with np.errstate(over='ignore'):
      return float(np.float32(value))
  except OverflowError:  # an integer beyond float64
    return math.inf if value > 0 else -math.inf


def _interval(
  kind: str, low: float, high: float, above: bool = False, below: bool = False
) -> str:
  """Returns a range in words, such as 'a number in (0, 1]'."""
  first, last = f'{low:.10g}', f'{high:.10g}'
  if math.isinf(low) and math.isinf(high):
    return kind
  if math.isinf(high):
    return f'{kind} {">" if above else ">="} {first}'
  if math.isinf(low):
    return f'{kind} {"<" if below else "<="} {last}'
  ends = '(' if above else '[', ')' if below else ']'
  return f'{kind} in {ends[0]}{first}, {last}{ends[1]}'


def _exceeds(most: str, value, beside: Mapping[str, Any]) -> str:
  other = beside.get(most)
  if not most or not _is_number(other, numbers.Real) or value <= other:
    return ''
  return f'must be at most {most}={other!r}'


def _shown(value: Any) -> str:
  """Returns the value in one line, cut where it is long."""
  text = ' '.join(repr(value).split())
  return text if len(text) <= _SHOWN else f'{text[:_SHOWN]}...'
