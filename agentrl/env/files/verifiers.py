"""Verifiers of prompts from a file: exact match, numbers, F₁ of words.

Each takes the agent's message and the row of its prompt, whose "answer" is a
text, a number, or a list of those that are accepted. The agent's answer is
`answer_of` its message, so that it may reason first.
"""

import decimal
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from agentrl.text import grading
from agentrl.text.tool_calls.base import spoken

# Of a box without braces, LaTeX takes one sign; we take a number or a letter.
_OPENING = re.compile(
  r'<answer>|\\(?:boxed|fbox)(?![A-Za-z])\s*'
  r'(?:\{|([-+−]?\.?\d+(?:[.,/]\d+)*|[A-Za-z])(?![A-Za-z]))'
)
_LAST_LINE = re.compile(r'(?:\A|\n)#### +(\S[^\n]*)\s*\Z')  # as in GSM8K
_BRACE = re.compile(r'\\.|[{}]', re.DOTALL)
_TEXT = re.compile(
  r'\\(?:text|textbf|textrm|mathbf|mathrm)\s*\{([^{}]*)\}', re.DOTALL
)


def answer_of(completion: str) -> str:
  r"""Returns the last <answer>...</answer> or \boxed{...} behind the thought.

  Of two in each other the inner one counts. Where there is neither, it is a
  last line behind ####, or all that stands behind the thought; where the last
  one was cut, nothing: what stood in one before it was withdrawn.
  """
  text = spoken(completion)
  openings = list(_OPENING.finditer(text))
  if not openings:
    return _marked(text)
  last = openings[-1]
  if last[0] == '<answer>':
    end = text.find('</answer>', last.end())
    answer = text[last.end() : end] if end >= 0 else ''
  else:
    answer = (last[1] or _braced(text, last.end())).strip()
    unwrapped = _TEXT.fullmatch(answer)
    answer = unwrapped[1] if unwrapped else answer
  return answer.strip()


def _marked(text: str) -> str:
  """Returns the last line behind ####, or all of a text."""
  marked = _LAST_LINE.search(text)
  return (marked[1] if marked else text).strip()


def _braced(text: str, start: int) -> str:
  """Returns the text before the brace that closes; '' where none does."""
  depth = 1
  for match in _BRACE.finditer(text, start):
    depth += {'{': 1, '}': -1}.get(match[0], 0)
    if not depth:
      return text[start : match.start()]
  return ''


def accepted(row: Mapping[str, Any]) -> list[str]:
  """Returns the accepted answers of a row.

  Raises:
    ValueError: it has no "answer", or none that a text could equal.
  """
  answer = row.get('answer')
  answers: list[Any] = answer if isinstance(answer, list) else [answer]
  if not answers or not all(map(_is_answer, answers)):
    raise ValueError(
      f'"answer" of the row must be a text, a finite number or a list of them,'
      f' got {answer!r:.200}'
    )
  return [_written(x) for x in answers]


def _is_answer(x: Any) -> bool:
  if isinstance(x, str):
    return bool(x.strip())
  if isinstance(x, float):
    return math.isfinite(x)
  return isinstance(x, int)


def _written(x: str | float) -> str:
  """Writes a number as one does: 0.00001, not 1e-05, and 3, not 3.0."""
  if isinstance(x, float):
    return f'{decimal.Decimal(repr(x)):f}'.removesuffix('.0')
  return _marked(str(x))


def exact(completion: str, row: Mapping[str, Any]) -> bool:
  """Matches exactly, but for case, punctuation, articles (grading.exact)."""
  return grading.exact(answer_of(completion), accepted(row))


def numeric(completion: str, row: Mapping[str, Any]) -> bool:
  """Matches as exact numbers: 3.5 is 7/2 (grading.number).

  Raises:
    ValueError: an accepted answer is no number.
  """
  values = [grading.number(x) for x in accepted(row)]
  if None in values:
    raise ValueError(
      f'"answer" of the row must be a number, got {row["answer"]!r:.200}'
    )
  return grading.number(answer_of(completion)) in values


def f1(completion: str, row: Mapping[str, Any]) -> float:
  """Scores F₁ of the words with the best accepted answer (grading.f1)."""
  return grading.f1(answer_of(completion), accepted(row))


def unscored(completion: str, row: Mapping[str, Any]) -> float:
  """Scores 0 for everything: for prompts whose answers a judge scores."""
  del completion, row
  return 0.0


SHIPPED: dict[str, Callable] = {
  f.__name__: f for f in (exact, numeric, f1, unscored)
}
