"""Text of the answers of the Model Context Protocol, as an agent reads it."""

import collections
import json
import re
from collections.abc import Iterator
from typing import Any

# A number or a name; it is not said by a longer one that holds it.
_WORD = re.compile(
  r'(?:(?<![0-9A-Za-z_])[-+])?[0-9A-Za-z_]+(?:\.[0-9A-Za-z_]+)*'
)


def text_of(result: Any) -> str:
  """Returns the text of an answer; '' if it has nothing to read.

  What is not text is named in a sentence. Structured content is shown as JSON,
  unless the texts say all of it already, as the protocol wants it.

  Args:
    result: a `CallToolResult` of the package mcp
  """
  parts = [_part(x.model_dump()) for x in result.content]
  structured = result.structured_content
  said = any(parts) and _says('\n'.join(parts), structured)
  if structured is not None and not said:
    parts.append(_json(structured))
  return '\n'.join(filter(None, parts))


def _part(part: dict[str, Any]) -> str:
  """Returns the text of a part by its fields, or a sentence that names it."""
  kind, resource = part['type'], part.get('resource') or {}
  if kind == 'text':
    return part['text']
  if kind == 'resource_link':
    about = part['description'] or part['title'] or part['name']
    return f'(A link to the resource {part["uri"]}: {about})'
  if 'text' in resource:
    return resource['text']
  if kind == 'resource':
    data, about = resource['blob'], f'The resource {resource["uri"]}'
  else:
    data, about = part['data'], f'Content: {kind}'
  mime = (resource or part)['mime_type'] or 'unknown'
  size = len(data) * 3 // 4  # of base64
  return f'({about} of type {mime}, about {size} bytes, cannot be shown.)'


def _says(text: str, value: Any) -> bool:
  """Returns True if a text holds every string, number and word of a JSON value.

  Each as often as the value does: 20 is not said by 2024, nor 1 and 1 by 1.
  """
  leaves = list(_leaves(value))
  words = collections.Counter(_WORD.findall(text))
  for leaf in leaves:
    word = leaf if isinstance(leaf, str) else _json(leaf)
    if _WORD.fullmatch(word):
      words[word] -= 1
      if words[word] < 0:
        return False
    elif word not in text and _json(leaf) not in text:
      return False
  return bool(leaves)


def _leaves(value: Any) -> Iterator[Any]:
  left = [value]
  while left:
    at = left.pop()
    if isinstance(at, dict):
      left += at.values()
    elif isinstance(at, list):
      left += at
    else:
      yield at


def _json(value: Any) -> str:
  return json.dumps(value, ensure_ascii=False)
