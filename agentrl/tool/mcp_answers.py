"""What an agent reads of an answer of the Model Context Protocol."""

import json
from collections.abc import Iterator
from typing import Any


def text_of(result: Any) -> str:
  """The text of an answer; '' if it has nothing to read.

  What is not text is named in a sentence. Structured content is shown as JSON,
  unless the texts say all of it already, as the protocol wants it.

  Args:
    result: a `CallToolResult` of the package mcp
  """
  parts = [_part(x) for x in result.content]
  structured = result.structured_content
  if structured is not None and not _says('\n'.join(parts), structured):
    parts.append(_json(structured))
  return '\n'.join(filter(None, parts))


def _part(content: Any) -> str:
  match content.type:
    case 'text':
      return content.text
    case 'resource_link':
      about = content.description or content.title or content.name
      return f'(A link to the resource {content.uri}: {about})'
    case 'resource' if hasattr(content.resource, 'text'):
      return content.resource.text
    case 'resource':
      data, about = (
        content.resource.blob,
        f'The resource {content.resource.uri}',
      )
      kind = content.resource.mime_type or 'unknown'
    case _:
      data, about = getattr(content, 'data', ''), f'Content: {content.type}'
      kind = getattr(content, 'mime_type', 'unknown')
  size = len(data) * 3 // 4  # of base64
  return f'({about} of type {kind}, about {size} bytes, cannot be shown.)'


def _says(text: str, value: Any) -> bool:
  """True if a text holds every string, number and word of a JSON value."""
  leaves = list(_leaves(value))
  return bool(leaves) and all(
    _json(x) in text or (isinstance(x, str) and x in text) for x in leaves
  )


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
