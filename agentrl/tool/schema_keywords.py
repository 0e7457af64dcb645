"""Keywords of JSON Schema that no schema can make hang.

The library jsonschema matches patterns by `re`, which may take exponential
time and lets no other thread run. Here the library regex matches them, and a
whole check has one limit of computing time, which also ends references and
alternatives that multiply; how busy the machine is decides nothing. Two more
differ from the library: 19.99 is a multiple of 0.01, and `nullable: true` of
OpenAPI allows null.
"""

import contextlib
import contextvars
import functools
import json
import math
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

import regex
from jsonschema import validators
from jsonschema.exceptions import ValidationError

SECONDS = 1.0  # of a check, that its thread computes
REFERENCES = ('$ref', '$dynamicRef', '$recursiveRef')
_DEPTH_LEFT = 100  # calls inside each other, for a lookup
_EXACT = 2**53  # integers up to it are exact as floats
_END: contextvars.ContextVar[float] = contextvars.ContextVar('end')
Errors = Iterator[ValidationError]


@contextlib.contextmanager
def limited(seconds: float = SECONDS) -> Iterator[None]:
  """Raises TimeoutError from keywords that are still checked afterwards."""
  token = _END.set(time.thread_time() + seconds)
  try:
    yield
  finally:
    _END.reset(token)


def matches(pattern: str, text: str) -> bool:
  """Searches a text for a pattern. Raises TimeoutError."""
  return compiled(pattern).search(text, timeout=_left()) is not None


@functools.lru_cache(maxsize=1024)
def compiled(pattern: str) -> Any:
  """Returns a pattern as Python reads it, else as ECMAScript does.

  Raises:
    regex.error: neither can.
  """
  try:
    return regex.compile(pattern)
  except regex.error:
    return regex.compile(_ECMA.sub(_of_python, pattern))


# What ECMAScript alone writes so; a class may hold any of the characters.
_ECMA = re.compile(
  r'\\u\{(?P<code>[0-9a-fA-F]{1,6})\}|\\c(?P<control>[a-zA-Z])'
  r'|\\k<(?P<group>\w+)>|(?P<none>\[\])|(?P<any>\[\^\])|\\.',
  re.DOTALL,
)


def _of_python(match: re.Match[str]) -> str:
  """Writes it in the syntax of Python."""
  part, kind = match[match.lastgroup or 0], match.lastgroup
  match kind:
    case 'code':
      return f'\\U{int(part, 16):08X}'
    case 'control':
      return f'\\x{ord(part) % 32:02x}'
    case 'group':
      return f'(?P={part})'
    case 'none':
      return '(?!)'
    case 'any':
      return r'[\s\S]'
  return part


def whole(value: Any) -> Any:
  """Writes 5 for 5.0 in the value: JSON has one kind of number, Python two."""
  if isinstance(value, dict):
    return {name: whole(x) for name, x in value.items()}
  if isinstance(value, list):
    return [whole(x) for x in value]
  if isinstance(value, float) and abs(value) <= _EXACT and value == int(value):
    return int(value)
  return value


@functools.cache
def guarded(draft: Any) -> Any:
  """Returns a validator class of a draft with the keywords of this module."""
  keywords = dict(draft.VALIDATORS)
  own = _KEYWORDS | {'type': _nullable(keywords['type'])}
  keywords |= {name: own[name] for name in own if name in keywords}
  timed = {name: _timed(keyword) for name, keyword in keywords.items()}
  timed |= {name: _shallow(timed[name]) for name in REFERENCES if name in timed}
  return validators.extend(draft, timed)


def evaluated(validator: Any, instance: Mapping[str, Any]) -> set[str]:
  """Returns the properties that a schema and its fitting parts speak of."""
  _left()
  schema = validator.schema
  if isinstance(schema, bool):
    return set()
  if 'additionalProperties' in schema or 'unevaluatedProperties' in schema:
    return set(instance)
  mentioned = set(schema.get('properties', ())) & set(instance)
  mentioned |= set(instance) - set(_unmatched(instance, schema))
  for keyword in REFERENCES:
    if keyword in schema:
      place = validator._resolver.lookup(schema[keyword])
      target = validator.evolve(schema=place.contents, _resolver=place.resolver)
      mentioned |= evaluated(target, instance)
  for part in _parts(validator, instance):
    if (at := validator.evolve(schema=part)).is_valid(instance):
      mentioned |= evaluated(at, instance)
  return mentioned


def _parts(validator: Any, instance: Mapping[str, Any]) -> list[Any]:
  """Lists schemas inside a schema that are held against the same object."""
  schema = validator.schema
  parts = [
    x for key in ('allOf', 'anyOf', 'oneOf') for x in schema.get(key, ())
  ]
  for key in ('dependentSchemas', 'dependencies'):
    parts += [x for name, x in schema.get(key, {}).items() if name in instance]
  if 'if' in schema:
    fits = validator.evolve(schema=schema['if']).is_valid(instance)
    parts += [schema['if'], schema.get('then' if fits else 'else', True)]
  return [x for x in parts if isinstance(x, dict)]


def _left() -> float:
  left = _END.get(math.inf) - time.thread_time()
  if left <= 0:
    raise TimeoutError
  return min(left, SECONDS)


def _timed(keyword: Callable) -> Callable:
  def timed(*args: Any) -> Errors:
    _left()
    yield from keyword(*args) or ()

  return timed


def _shallow(keyword: Callable) -> Callable:
  """Raises RecursionError some way before Python would.

  References are looked up in Rust, which ends in a panic where Python raises.
  """

  def shallow(*args: Any) -> Errors:
    try:
      sys._getframe(sys.getrecursionlimit() - _DEPTH_LEFT)
    except ValueError:  # there are not so many
      return keyword(*args)
    raise RecursionError

  return shallow


def _nullable(type_: Callable) -> Callable:
  def nullable(validator: Any, types: Any, instance: Any, schema: Any):
    if instance is not None or schema.get('nullable') is not True:
      yield from type_(validator, types, instance, schema)

  return nullable


def _pattern(
  validator: Any, pattern: str, instance: Any, schema: Any
) -> Errors:
  if validator.is_type(instance, 'string') and not matches(pattern, instance):
    yield ValidationError('')


def _properties(
  validator: Any, properties: Mapping[str, Any], instance: Any, schema: Any
) -> Errors:
  """Checks as the library, which loses the name of a property that is false."""
  if validator.is_type(instance, 'object'):
    for name in (x for x in properties if x in instance):
      if properties[name] is False:
        yield ValidationError('', path=[name])
      yield from validator.descend(
        instance[name], properties[name] is False or properties[name], path=name
      )


def _pattern_properties(
  validator: Any, patterns: Mapping[str, Any], instance: Any, schema: Any
) -> Errors:
  if validator.is_type(instance, 'object'):
    for pattern, wanted in patterns.items():
      for name, value in instance.items():
        if matches(pattern, name):
          yield from validator.descend(value, wanted, path=name)


def _property_names(
  validator: Any, wanted: Any, instance: Any, schema: Any
) -> Errors:
  if validator.is_type(instance, 'object'):
    for name in instance:
      yield from validator.descend(name, wanted, path=name)


def _additional(
  validator: Any, wanted: Any, instance: Any, schema: Any
) -> Errors:
  if validator.is_type(instance, 'object'):
    names = _unmatched(instance, schema)
    names = [x for x in names if x not in schema.get('properties', ())]
    yield from _others(validator, wanted, instance, names)


def _unevaluated(
  validator: Any, wanted: Any, instance: Any, schema: Any
) -> Errors:
  if validator.is_type(instance, 'object'):
    rest = {k: v for k, v in schema.items() if k != 'unevaluatedProperties'}
    mentioned = evaluated(validator.evolve(schema=rest), instance)
    names = [x for x in instance if x not in mentioned]
    yield from _others(validator, wanted, instance, names)


def _others(
  validator: Any, wanted: Any, instance: Any, names: list[str]
) -> Errors:
  """Holds other properties against a schema; the error's message is names."""
  if wanted is False and names:
    yield ValidationError(', '.join(names))
  elif isinstance(wanted, dict):
    for name in names:
      yield from validator.descend(instance[name], wanted, path=name)


def _unmatched(
  instance: Mapping[str, Any], schema: Mapping[str, Any]
) -> list[str]:
  patterns = schema.get('patternProperties', ())
  return [x for x in instance if not any(matches(p, x) for p in patterns)]


def _multiple_of(
  validator: Any, step: Any, instance: Any, schema: Any
) -> Errors:
  if validator.is_type(instance, 'number'):
    number, unit = _decimal(instance), _decimal(step)
    if number is None or unit is None or number % unit:
      yield ValidationError('')


def _decimal(number: float) -> Fraction | None:
  """Returns the number as written, a tenth for 0.1; None: it is not finite."""
  if isinstance(number, float):
    return Fraction(repr(number)) if math.isfinite(number) else None
  return Fraction(number)


def _unique(validator: Any, wanted: Any, instance: Any, schema: Any) -> Errors:
  if wanted and validator.is_type(instance, 'array'):
    texts = {json.dumps(whole(x), sort_keys=True) for x in instance}
    if len(texts) < len(instance):
      yield ValidationError('')


_KEYWORDS: dict[str, Callable] = {
  'properties': _properties,
  'pattern': _pattern,
  'patternProperties': _pattern_properties,
  'propertyNames': _property_names,
  'additionalProperties': _additional,
  'unevaluatedProperties': _unevaluated,
  'multipleOf': _multiple_of,
  'uniqueItems': _unique,
}
