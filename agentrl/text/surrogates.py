"""Halves of surrogate pairs, which JSON can spell and UTF-8 cannot hold.

Half a pair reads as U+FFFD, the replacement character, wherever text enters:
in JSON that a model or a client wrote, and in what is encoded as tokens.
"""

import re
from typing import Any

_HALF = re.compile('[\ud800-\udfff]')


def replaced(text: str) -> str:
  """Returns the text as UTF-8 can hold it."""
  try:
    text.encode()
  except UnicodeEncodeError:
    # A function lets other threads run between the matches.
    return _HALF.sub(lambda half: '\ufffd', text)
  return text


def replaced_in(value: Any) -> Any:
  """Returns a value of JSON whose texts and names UTF-8 can hold."""
  if isinstance(value, str):
    return replaced(value)
  if isinstance(value, list):
    return [replaced_in(x) for x in value]
  if isinstance(value, dict):
    return {replaced(k): replaced_in(x) for k, x in value.items()}
  return value
