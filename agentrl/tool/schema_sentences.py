"""Sentences on values that do not fit a schema, for their authors."""

from collections.abc import Mapping
from typing import Any

from jsonschema.exceptions import ValidationError

SHOWN = 100  # characters of a value
RULE = 300  # characters of what a schema demands
# Keywords by which properties may be named beside `properties`.
_ELSEWHERE = {
  '$ref', '$dynamicRef', '$recursiveRef', 'allOf', 'anyOf', 'oneOf', 'if',
  'dependentSchemas', 'dependencies', 'patternProperties',
}  # fmt: skip
# Keywords whose sentence is not of the form `must be`.
_WHOLE = (
  None, 'properties', 'required', 'dependentRequired', 'dependencies',
  'additionalProperties', 'unevaluatedProperties',
)  # fmt: skip
# What a value must be, by the keyword that refused it.
_RULES = {
  'const': '{!r}',
  'enum': 'one of {!r}',
  'format': 'a regular expression',  # the only one that is checked
  'minimum': 'at least {}',
  'maximum': 'at most {}',
  'exclusiveMinimum': 'more than {}',
  'exclusiveMaximum': 'less than {}',
  'multipleOf': 'a multiple of {}',
  'minLength': 'of at least {} characters',
  'maxLength': 'of at most {} characters',
  'pattern': 'text that the pattern {!r} matches',
  'minItems': 'of at least {} items',
  'maxItems': 'of at most {} items',
  'uniqueItems': 'of items that differ',
  'contains': 'a list with items that fit {!r}',
  'maxContains': 'a list with at most {} items that fit',
  'minProperties': 'of at least {} properties',
  'maxProperties': 'of at most {} properties',
  'items': 'without more items than it names',
  'additionalItems': 'without more items than it names',
  'unevaluatedItems': 'without more items than it names',
  'not': 'other than {!r}',
  'anyOf': 'what one of {!r} allows',
  'oneOf': 'what exactly one of {!r} allows',
}


def sentence(error: ValidationError) -> str:
  """Names the place, the rule and the value of an error."""
  place, value = _place(error), error.validator_value
  match error.validator:
    case None | 'properties':  # false as a schema
      return f'{place or "it"} must be left out.'
    case 'required' if isinstance(value, list):
      missing = [_place(error, x) for x in value if x not in error.instance]
      return f'{", ".join(missing)} is missing.'
    case 'dependentRequired' | 'dependencies':
      return _needed(error)
    case 'additionalProperties' | 'unevaluatedProperties' if error.message:
      return takes(place or 'it', error.schema, error.message)
  if (rule := _rule(error)) is None:
    parts = dict.fromkeys(sentence(x)[:-1] for x in error.context)
    text = cut('; or '.join(parts), RULE)
    return f'{place or "it"} fits none of its alternatives: {text}.'
  text = cut(repr(error.instance), SHOWN)
  return f'{place or "it"} must be {cut(rule, RULE)}, and {text} is not.'


def takes(place: str, schema: Mapping[str, Any], names: str) -> str:
  """Names the properties that there are, and those that are not among them."""
  names = cut(names if names.isprintable() else repr(names), SHOWN)
  if _ELSEWHERE & set(schema):
    return f'{place} does not take {names}.'
  properties = ', '.join(map(_name, schema.get('properties', ()))) or 'nothing'
  return f'{place} takes {cut(properties, RULE)}, and not {names}.'


def cut(text: str, most: int) -> str:
  return text if len(text) <= most else f'{text[:most]}...'


def _rule(error: ValidationError) -> str | None:
  """Says what a value must be; None where alternatives refuse parts of it."""
  if error.validator == 'type':
    types = error.validator_value
    types = [types] if isinstance(types, str) else types
    return f'of type {" or ".join(map(str, types))}'
  if error.context:
    rules = [
      None if x.path or x.validator in _WHOLE else _rule(x)
      for x in error.context
    ]
    distinct = dict.fromkeys(x for x in rules if x is not None)
    return ' or '.join(distinct) if None not in rules else None
  rule = _RULES.get(str(error.validator))
  if rule is None:
    return f'what {error.validator}={error.validator_value!r} allows'
  return rule.format(error.validator_value)


def _needed(error: ValidationError) -> str:
  """Names the properties that others ask for."""
  given = {
    name: x
    for name, x in error.validator_value.items()
    if name in error.instance and not isinstance(x, dict | bool)
  }
  lists = [[x] if isinstance(x, str) else x for x in given.values()]
  lost = dict.fromkeys(x for xs in lists for x in xs if x not in error.instance)
  missing = ', '.join(_place(error, x) for x in lost)
  return f'{missing} is missing beside {", ".join(map(_name, given))}.'


def _place(error: ValidationError, *more: str) -> str:
  """Writes a.b[0]; '' for the whole value."""
  out = ''
  for part in (*error.absolute_path, *more):
    out += f'[{part}]' if isinstance(part, int) else f'.{_name(part)}'
  return out.removeprefix('.')


def _name(name: str) -> str:
  return cut(name if name.isprintable() else repr(name), SHOWN)
