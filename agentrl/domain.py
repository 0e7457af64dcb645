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
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, NamedTuple

import numpy as np

WHOLE = 2**31 - 1  # the largest that an int32 holds
_NAME = 255  # bytes of a file's name, and characters of others, at most
_SHOWN = 80  # characters of a value in a message


@dataclasses.dataclass(frozen=True)
class Domain:
  """The values that a field may hold."""

  def explain(self) -> str:
    """These values in words, to stand after 'must be'."""
    raise NotImplementedError

  def mistake(self, value: Any, beside: Mapping[str, Any]) -> str:
    """Returns a sentence on what is wrong with the value; '' if nothing is.

    beside: the fields that stand with this one, by name
    """
    raise NotImplementedError

  def check(
    self, field: str, value: Any, beside: Mapping[str, Any] | None = None
  ) -> None:
    """Raises ValueError, one sentence, for a value outside."""
    if mistake := self.mistake(value, beside or {}):
      raise ValueError(f'{field}={_shown(value)} {mistake}')


@dataclasses.dataclass(frozen=True)
class Real(Domain):
  """Numbers from `low` to `high` that a float32 holds.

  above, below: the lowest, the highest itself is none of them
  infinite: inf is one of them
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
    return _kind('a number', self._range(), self.most)

  def mistake(self, value: Any, beside: Mapping[str, Any]) -> str:
    if not _is_number(value, numbers.Real):
      return f'is no number; set it to {self._fix()}'
    x = _as_float32(value)
    if math.isnan(x):
      return f'is not a number; set it to {self._fix()}'
    if math.isinf(x) and not (self.infinite and value == math.inf):
      return f'is not finite in float32; set it to {self._fix()}'
    if x < self.low or (self.above and x <= self.low):
      return f'is too low; set it to {self._fix()}'
    if x > self.high or (self.below and x >= self.high):
      return f'is too high; set it to {self._fix()}'
    return _exceeds(self.most, value, beside)

  def _fix(self) -> str:
    return _fix('a number', self._range())

  def _range(self) -> str:
    ends = _ends(self.low, self.high, self.above, self.below)
    return f'{ends}, or inf' if ends and self.infinite else ends


@dataclasses.dataclass(frozen=True)
class Whole(Domain):
  """Whole numbers from `low` to `high`, and those of `also`.

  most: the name of a field beside this one that it does not exceed
  """

  low: int = -WHOLE
  high: int = WHOLE
  also: tuple[int, ...] = ()
  most: str = ''

  def explain(self) -> str:
    return _kind('a whole number', self._range(), self.most)

  def mistake(self, value: Any, beside: Mapping[str, Any]) -> str:
    if not _is_number(value, numbers.Integral):
      return f'is no whole number; set it to {self.explain()}'
    if value in self.also:
      return ''
    if value < self.low:
      return f'is too low; set it to {self._fix()}'
    if value > self.high:
      return f'is too high; set it to {self._fix(full=True)}'
    return _exceeds(self.most, value, beside)

  def _fix(self, *, full: bool = False) -> str:
    return _fix('a whole number', self._range(full=full))

  def _range(self, *, full: bool = False) -> str:
    low = self.low if self.low > -WHOLE else -math.inf
    high = self.high if full or self.high < WHOLE else math.inf
    return ', or '.join(filter(None, (_ends(low, high), *map(str, self.also))))


@dataclasses.dataclass(frozen=True)
class Flag(Domain):
  """True or False."""

  def explain(self) -> str:
    return 'True or False'

  def mistake(self, value: Any, beside: Mapping[str, Any]) -> str:
    ok = isinstance(value, bool | np.bool_)
    return '' if ok else 'is neither True nor False; set it to one of them'


@dataclasses.dataclass(frozen=True, init=False)
class OneOf(Domain):
  """Some words."""

  words: tuple[str, ...]

  def __init__(self, *words: str):
    object.__setattr__(self, 'words', words)

  def explain(self) -> str:
    return ', '.join(map(repr, self.words))

  def mistake(self, value: Any, beside: Mapping[str, Any]) -> str:
    if isinstance(value, str) and value in self.words:
      return ''
    close = suggest(value, self.words) if isinstance(value, str) else ''
    return f'is unknown{close}; choose from {self.explain()}'


@dataclasses.dataclass(frozen=True)
class Text(Domain):
  """Any text; `what` it is, and whether it may be empty."""

  what: str = 'a text'
  empty: bool = True

  def explain(self) -> str:
    return f"{self.what}, or ''" if self.empty else self.what

  def mistake(self, value: Any, beside: Mapping[str, Any]) -> str:
    if not isinstance(value, str):
      return f'is no text; set it to {self.explain()}'
    if not (self.empty or value.strip()):
      return f'is empty; set it to {self.what}'
    if '\0' in value:
      return f'holds a zero byte; set it to {self.explain()}'
    if any('\ud800' <= x <= '\udfff' for x in value):
      return f'holds half of a surrogate pair; set it to {self.explain()}'
    return ''


@dataclasses.dataclass(frozen=True)
class Path(Text):
  """A file or a folder of this machine, or of a bucket (gs://)."""

  what: str = 'a path'
  bucket: bool = False

  def mistake(self, value: Any, beside: Mapping[str, Any]) -> str:
    scheme = re.match(r'\w+://', value) if isinstance(value, str) else None
    if scheme and not (self.bucket and scheme.group() == 'gs://'):
      return (
        f'is no folder of this machine, and {scheme.group()} is not supported;'
        ' set it to a local path'
      )
    if mistake := super().mistake(value, beside):
      return mistake
    if any(len(x.encode()) > _NAME for x in value.split('/')):
      return f'is too long; each name in a path has at most {_NAME} bytes'
    return ''


@dataclasses.dataclass(frozen=True)
class Name(Text):
  """The name of a component, a column, a term or a role."""

  what: str = 'a name'
  empty: bool = False

  def mistake(self, value: Any, beside: Mapping[str, Any]) -> str:
    if isinstance(value, str) and len(value) > _NAME:
      return f'is too long; a name has at most {_NAME} characters'
    match = re.fullmatch(r'[\w.:-]+', value) if isinstance(value, str) else None
    if match:
      return ''
    return super().mistake(value, beside) or (
      'is no name, of letters, digits and _ . : -; set it to one'
    )


@dataclasses.dataclass(frozen=True)
class Tuple(Domain):
  """Several values of one domain, as a tuple or a list.

  least: how many there are at least
  length: how many there are; 0: any number
  once: none is there twice
  like: the name of a tuple beside this one, which has as many values
  fewer: how many values this one has less than that
  """

  of: Domain = Name()
  least: int = 0
  length: int = 0
  once: bool = False
  like: str = ''
  fewer: int = 0

  def explain(self) -> str:
    count = str(self.length) if self.length else f'{self.least} or more'
    if self.like:
      count = f'{self.fewer} fewer than' if self.fewer else 'as many as'
      count = f'{count} {self.like}'
    return f'a tuple of {count}, each {self.of.explain()}'

  def mistake(self, value: Any, beside: Mapping[str, Any]) -> str:
    if isinstance(value, str):
      words = tuple(re.findall(r'[\w.:-]+', value)) or ('...',)
      return f'is a text where a tuple belongs; write {words!r}'
    if not isinstance(value, tuple | list):
      return f'is no tuple; set it to {self.explain()}'
    if self.length and len(value) != self.length:
      return f'has {len(value)} values; set it to {self.explain()}'
    if len(value) < self.least:
      return f'has too few values; set it to {self.explain()}'
    for x in value:
      if mistake := self.of.mistake(x, {}):
        return f'holds {_shown(x)}, which {mistake}'
    if self.once and len(set(value)) < len(value):
      return 'holds a value twice; leave one of the two out'
    other = beside.get(self.like)
    if not isinstance(other, tuple | list):
      return ''
    if len(value) != len(other) - self.fewer:
      return (
        f'has {len(value)} values beside {self.like}={_shown(other)}; set it to'
        f' {self.explain()}'
      )
    return ''


@dataclasses.dataclass(frozen=True)
class Dominant(Tuple):
  """Positive numbers, each more than the sum of all after it."""

  of: Domain = Real(0, above=True)

  def explain(self) -> str:
    return f'{super().explain()}, more than the sum of those after it'

  def mistake(self, value: Any, beside: Mapping[str, Any]) -> str:
    if mistake := super().mistake(value, beside):
      return mistake
    for i, x in enumerate(value):
      if x <= (rest := sum(value[i + 1 :])):
        return (
          f'holds {x!r}, and those after it add up to {rest:.10g}; raise it, or'
          ' lower them'
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
Columns = Annotated[tuple[str, ...], Tuple(Name('a column'), once=True)]

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
    if domain := of(hint) or like(field.default):
      said = typing.get_args(hint)[1:] if of(hint) else ()
      texts = [x for x in said if isinstance(x, str)]
      meaning = texts[0] if texts else comments(cls).get(field.name, '')
      out[field.name] = Field(field.default, domain, meaning)
  return out


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
  """The comments beside the fields of a dataclass, inherited ones too."""
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
  """The domain of whatever has the type of a value; None: anything."""
  return _TYPES.get(type(value))


def _is_number(value: Any, kind: type) -> bool:
  return isinstance(value, kind) and not isinstance(value, bool | np.bool_)


def _as_float32(value) -> float:
  """The number as it computes; inf where it is too large."""
  try:
    with np.errstate(over='ignore'):
      return float(np.float32(value))
  except OverflowError:  # a whole number beyond float64
    return math.inf if value > 0 else -math.inf


def _ends(low, high, above: bool = False, below: bool = False) -> str:
  """A range in words; '' where it has no end."""
  first, last = f'{low:.10g}', f'{high:.10g}'
  if math.isinf(low) and math.isinf(high):
    return ''
  if math.isinf(high):
    return f'more than {first}' if above else f'{first} or more'
  if math.isinf(low):
    return f'less than {last}' if below else f'{last} or less'
  if not (above or below):
    return f'from {first} to {last}'
  lower = f'more than {first}' if above else f'at least {first}'
  return f'{lower} and {"less than" if below else "at most"} {last}'


def _fix(kind: str, ends: str) -> str:
  """Returns the advice for a number outside."""
  if not ends or ends.startswith('from'):
    return f'{kind} {ends}'.strip()
  return ends


def _kind(kind: str, ends: str, most: str) -> str:
  """A number in words."""
  if ends:
    kind += f' {ends}' if ends.startswith('from') else f', {ends}'
  return f'{kind}, at most {most}' if most else kind


def _exceeds(most: str, value, beside: Mapping[str, Any]) -> str:
  other = beside.get(most)
  if not most or not _is_number(other, numbers.Real) or value <= other:
    return ''
  return f'is more than {most}={other!r}; lower it, or raise {most}'


def _shown(value: Any) -> str:
  """The value in one line, cut where it is long."""
  text = ' '.join(repr(value).split())
  return text if len(text) <= _SHOWN else f'{text[:_SHOWN]}...'
