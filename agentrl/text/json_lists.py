"""Lists in JSON that a model wrote among other words."""

import json
import re
from typing import Any

_BEGIN = re.compile(r'\[(?=\s*{)')  # of a list of objects
_TRIES = 16  # places where a list may begin


def read(answer: str) -> list[Any] | None:
  """Returns the list in an answer, whatever text is around; None: it has none.

  Of several lists of objects the first one that can be read.
  """
  begin, end = answer.find('['), answer.rfind(']')
  whole = _load(answer[begin : end + 1]) if begin >= 0 else None
  if whole is not None:
    return whole
  begins = [x.start() for x in _BEGIN.finditer(answer)][:_TRIES]
  found = (_load(answer[i:], whole=False) for i in begins)
  return next((x for x in found if x is not None), None)


def _load(text: str, *, whole: bool = True) -> list[Any] | None:
  """Reads a list at the beginning of a text, or one that is all of it."""
  try:
    given = (
      json.loads(text) if whole else json.JSONDecoder().raw_decode(text)[0]
    )
  except (ValueError, RecursionError):
    return None
  return given if isinstance(given, list) else None
