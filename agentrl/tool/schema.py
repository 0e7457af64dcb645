"""The schemas of tools' arguments, and whether arguments fit them.

A schema is JSON Schema of the draft that its `$schema` names, 2020-12 without
one, and the library jsonschema checks it. What differs:

  - arguments that the schema does not speak of are refused, unless its
    `additionalProperties` or `unevaluatedProperties` says otherwise
  - `format` says what a value means and is not checked; what is for readers,
    such as `title`, may be anything
  - a reference to another document is refused; nothing is fetched
  - a check ends after a second of computing, whatever pattern the schema has;
    arguments that are not through by then do not fit
"""

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jsonschema_specifications
import referencing
import regex
from jsonschema import FormatChecker, validators
from jsonschema.exceptions import ValidationError, best_match
from referencing.exceptions import NoSuchResource, Unresolvable
from referencing.jsonschema import UnknownDialect, specification_with

from agentrl.tool import schema_keywords as keywords
from agentrl.tool.schema_sentences import SHOWN, cut, sentence, takes

_FORMATS = FormatChecker(())  # of schemas themselves
_FORMATS.checks('regex', raises=(regex.error, TimeoutError, OverflowError))(
  lambda x: not isinstance(x, str) or bool(keywords.compiled(x))
)
# Keywords that are for readers, and the vocabularies that hold them.
_ANNOTATIONS = (
  'title',
  'description',
  'default',
  'examples',
  'format',
  'deprecated',
  'readOnly',
  'writeOnly',
)
_VOCABULARIES = 'meta/meta-data', 'meta/format', 'meta/format-annotation'
_STRICT = {'exclusiveMinimum': 'minimum', 'exclusiveMaximum': 'maximum'}


def schema(required: Sequence[str] = (), **properties: Any) -> dict[str, Any]:
  """Makes the schema of an object; a property is a schema or a type's name.

  Raises:
    ValueError: a property's schema is faulty.
  """
  out = {
    'type': 'object',
    'properties': {
      name: {'type': x} if isinstance(x, str) else x
      for name, x in properties.items()
    },
    'required': list(required),
  }
  check(out)
  return out


def check(schema: Mapping[str, Any] | bool) -> None:
  """Raises ValueError for a faulty schema: not JSON, or not JSON Schema."""
  _compiled(_text(schema))


def mismatch(args: Mapping[str, Any], schema: Mapping[str, Any] | bool) -> str:
  """Returns '' or one sentence on what of the arguments does not fit.

  Raises:
    ValueError: the schema is faulty; see `check`.
  """
  return _mismatch(dict(args), schema, closed=True)


def violation(value: Any, schema: Mapping[str, Any] | bool) -> str:
  """Returns '' or one sentence on what of any value does not fit.

  Properties are open, as in the standard.

  Raises:
    ValueError: the schema is faulty; see `check`.
  """
  return _mismatch(value, schema, closed=False)


def _mismatch(
  value: Any, schema: Mapping[str, Any] | bool, closed: bool
) -> str:
  validator = _compiled(_text(schema))
  try:
    with keywords.limited():
      if (error := _best(validator.iter_errors(value))) is not None:
        return sentence(error)
      if closed and isinstance(validator.schema, dict):
        mentioned = keywords.evaluated(validator, value)
        if unknown := [x for x in value if x not in mentioned]:
          return takes('it', validator.schema, ', '.join(unknown))
  except TimeoutError:
    return (
      f'{cut(repr(value), SHOWN)} cannot be checked within'
      f' {keywords.SECONDS:g} s; give shorter values.'
    )
  except RecursionError:
    return 'the value is nested too deeply for its schema.'
  except (ValueError, OverflowError):  # Python shows 4300 digits at most
    return 'it must be of numbers with fewer digits.'
  return ''


def _text(schema: Any) -> str:
  try:
    return json.dumps(schema, allow_nan=False)
  except RecursionError:
    raise ValueError('the schema is nested too deeply') from None
  except (TypeError, ValueError) as error:
    raise ValueError(f'the schema must be JSON ({error})') from error


@functools.lru_cache(maxsize=1024)
def _compiled(text: str) -> Any:
  """Returns the validator of a schema.

  Raises:
    ValueError: it is faulty.
  """
  schema = json.loads(text)
  try:
    draft = _draft(schema)
    _follow(draft, schema)
  except RecursionError:
    raise ValueError('the schema is nested too deeply') from None
  if isinstance(schema, dict):
    schema.pop('$schema', None)  # `evolve` would take the library's own class
  return keywords.guarded(draft)(schema, registry=referencing.Registry())


def _draft(schema: Any) -> Any:
  """Returns the draft by which a schema is read, and by which it has no fault.

  Without a `$schema` that is known a list in `items` is read as before 2020-12,
  and true as a limit, of OpenAPI 3.0, is made a number in place.
  """
  newest = validators.Draft202012Validator
  named = schema.get('$schema') if isinstance(schema, dict) else None
  draft = None
  if isinstance(named, str):
    draft = validators.validator_for({'$schema': named}, default=None)
  latest = draft is None
  draft = draft or newest
  errors = _faults(draft, schema)
  if errors and latest:
    for error in errors:
      _make_strict(schema, error)
    errors = _faults(draft, schema)
    if errors and all(map(_lists_items, errors)):
      draft = validators.Draft201909Validator
      errors = _faults(draft, schema)
  if errors:
    raise ValueError(f'in the schema {sentence(_best(errors))[:-1]}')
  return draft


def _best(errors: Iterable[ValidationError]) -> Any:
  """Returns the error that says most; None without one."""
  every = list(errors)
  try:
    return best_match(every)
  except TypeError:  # types of draft 3 may be schemas, which it cannot take
    return every[0]


def _make_strict(schema: Any, error: ValidationError) -> None:
  """Turns `minimum: 0, exclusiveMinimum: true` into `exclusiveMinimum: 0`."""
  *path, keyword = error.absolute_path or [None]
  if keyword not in _STRICT or not isinstance(error.instance, bool):
    return
  for part in path:
    schema = schema[part]
  limit = _STRICT[keyword]
  if not schema.pop(keyword):
    return
  if limit in schema:
    schema[keyword] = schema.pop(limit)


def _faults(draft: Any, schema: Any) -> list[ValidationError]:
  return list(_meta(draft).iter_errors(schema))


@functools.cache
def _meta(draft: Any) -> Any:
  """Returns the validator of a draft's schemas, whose annotations are free."""
  own = 'id' if 'id' in draft.META_SCHEMA else '$id'
  name = draft.META_SCHEMA[own].removesuffix('#') + '-without-annotations'
  whole = draft.META_SCHEMA | {own: name}  # to which its parts come back
  whole['properties'] = {
    name: x
    for name, x in whole.get('properties', {}).items()
    if name not in _ANNOTATIONS
  }
  if 'allOf' in whole:
    parts = whole['allOf']
    whole['allOf'] = [x for x in parts if x['$ref'] not in _VOCABULARIES]
  meta = validators.validator_for(draft.META_SCHEMA)
  registry = referencing.Registry()
  return meta(whole, format_checker=_FORMATS, registry=registry)


def _lists_items(error: ValidationError) -> bool:
  path = error.absolute_path
  return bool(path) and path[-1] == 'items' and isinstance(error.instance, list)


def _follow(draft: Any, schema: Any) -> None:
  """Looks every reference up, and makes inner schemas of the same draft.

  Raises:
    ValueError: one leads nowhere, to another document, or to no schema.
  """
  specification = specification_with(draft.ID_OF(draft.META_SCHEMA))
  root = specification.create_resource(schema)
  registry = jsonschema_specifications.REGISTRY
  own = {id(x) for x in _objects(schema)}
  seen: set[int] = set()
  reached: set[int] = set()
  left = [(root, registry.resolver_with_root(root))]
  while left:
    resource, resolver = left.pop()
    at = resource.contents
    if id(at) in seen or id(at) not in own:
      continue
    seen.add(id(at))
    for keyword in (x for x in keywords.REFERENCES if x in at):
      target, of_target = _target(resolver, at, keyword)
      if not isinstance(target, bool) and id(target) not in own:
        raise _lost(keyword, at)
      if id(target) in reached:
        continue
      reached.add(id(target))
      if errors := _faults(draft, target):
        raise ValueError(
          f'in the schema at {keyword}={at[keyword]!r}'
          f' {sentence(_best(errors))[:-1]}'
        )
      left.append((specification.create_resource(target), of_target))
    try:
      parts = list(resource.subresources())
      left += [(part, resolver.in_subresource(part)) for part in parts]
    except UnknownDialect as error:
      raise ValueError(
        f'in the schema $schema={error.uri!r} is not known; leave it out'
      ) from None
    if at is not schema and isinstance(at.get('$schema'), str):
      del at['$schema']


def _target(resolver: Any, at: Any, keyword: str) -> tuple[Any, Any]:
  """Returns what a reference leads to, and who resolves its references.

  Raises:
    ValueError: it leads to nothing, or in a circle.
  """
  passed: list[Any] = []
  target, targets = at, []
  while isinstance(target, dict) and isinstance(target.get(keyword), str):
    if any(target is x for x in passed):
      raise _lost(keyword, at)
    passed.append(target)
    try:
      place = resolver.lookup(target[keyword])
    except (Unresolvable, NoSuchResource, ValueError):
      raise _lost(keyword, at) from None
    target, resolver = place.contents, place.resolver
    targets.append((target, resolver))
  return targets[0]


def _lost(keyword: str, at: Mapping[str, Any]) -> ValueError:
  return ValueError(
    f'in the schema {keyword} must lead to a part of the schema itself, got'
    f' {cut(repr(at[keyword]), SHOWN)}'
  )


def _objects(value: Any) -> Iterable[dict]:
  left = [value]
  while left:
    at = left.pop()
    if isinstance(at, dict):
      yield at
      left += at.values()
    elif isinstance(at, list):
      left += at
