"""Values that no field of a file expects, and documents that hold them."""

import copy
import json
from collections.abc import Iterator
from typing import Any

# As JSON texts, for some are none of Python's values.
VALUES = (
  'null', '[]', '{}', '-1', '0', '1.5', 'true', '"x"', '""',
  'NaN', 'Infinity', '-Infinity', '1e400', '-1e400', '1e39', '"1"',
  '1' + '0' * 400, '1' * 5000, '2147483648', '[NaN]', '[[1]]', '[true]',
  '"\\ud83d"', '[' * 100_000 + ']' * 100_000, '{"a": 1, "a": 2}',
  '[-1]', '[1.7]', '["1"]', '[null]', '[4294967296]', '5', '-0.5',
)  # fmt: skip
_HOLE = '"<<<here>>>"'


def paths(document: Any, at: tuple = ()) -> Iterator[tuple]:
  """The place of every value in a document."""
  if at:
    yield at
  items = ()
  if isinstance(document, dict):
    items = document.items()
  elif isinstance(document, list):
    items = enumerate(document)
  for name, x in items:
    yield from paths(x, (*at, name))


def mutations(document: Any, values=VALUES) -> Iterator[tuple[tuple, str, str]]:
  """(place, value, JSON text): the document with one value in place of one."""
  for path in paths(document):
    made = copy.deepcopy(document)
    node = made
    for name in path[:-1]:
      node = node[name]
    node[path[-1]] = json.loads(_HOLE)
    text = json.dumps(made)
    for value in values:
      yield path, value, text.replace(_HOLE, value)
