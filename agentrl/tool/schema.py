"""The schemas of tools' arguments, and whether arguments fit them."""

from collections.abc import Mapping, Sequence
from typing import Any

_TYPES = {
  'string': str,
  'integer': int,
  'number': (int, float),
  'boolean': bool,
  'array': list,
  'object': dict,
  'null': type(None),
}


def schema(required: Sequence[str] = (), **properties: Any) -> dict[str, Any]:
  """The schema of an object; a property is a schema or the name of a type."""
  return {
    'type': 'object',
    'properties': {
      name: {'type': x} if isinstance(x, str) else x
      for name, x in properties.items()
    },
    'required': list(required),
  }


def mismatch(args: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
  """'' or one sentence on what does not fit the schema.

  Names, types and choices are looked at, and the types of what a list holds;
  whatever else a schema demands is the tool's own to refuse.
  """
  properties = schema.get('properties', {})
  missing = [x for x in schema.get('required', ()) if x not in args]
  if missing:
    return f'{", ".join(missing)} is missing.'
  unknown = [x for x in args if x not in properties]
  if unknown and not schema.get('additionalProperties', False):
    names = ', '.join(properties) or 'nothing'
    return f'it takes {names}, and not {", ".join(unknown)}.'
  for name, value in args.items():
    if complaint := _unfit(name, value, properties.get(name, {})):
      return complaint
  return ''


def _unfit(name: str, value: Any, wanted: Mapping[str, Any]) -> str:
  kinds = wanted.get('type', list(_TYPES))
  kinds = [kinds] if isinstance(kinds, str) else kinds
  if not any(_is(value, kind) for kind in kinds):
    text = repr(value)[:100]
    return f'{name} must be of type {" or ".join(kinds)}, and {text} is not.'
  if 'enum' in wanted and value not in wanted['enum']:
    return f'{name} must be one of {wanted["enum"]}, and {value!r} is not.'
  if isinstance(value, list) and 'items' in wanted:
    complaints = (
      _unfit(f'{name}[{i}]', x, wanted['items']) for i, x in enumerate(value)
    )
    return next(filter(None, complaints), '')
  return ''


def _is(value: Any, kind: str) -> bool:
  """True is no number, whatever Python says."""
  if isinstance(value, bool):
    return kind == 'boolean'
  return isinstance(value, _TYPES.get(kind, object))
