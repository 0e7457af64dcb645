"""Verifiers of prompts from a file: exact match, numbers, F₁ of words.

Each takes the agent's message and the row of its prompt, whose "answer" is a
text, a number, or a list of those that are accepted. The agent's answer is
`answer_of` its message, so that it may reason first.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from agentrl.env import grading
from agentrl.text.tool_calls.base import spoken

_TAGGED = re.compile(r'<answer>(.*?)</answer>|\\boxed\{([^{}]*)\}', re.DOTALL)


def answer_of(completion: str) -> str:
  r"""The last <answer>...</answer> or \boxed{...} behind the thought.

  Where there is neither, all that stands behind the thought.
  """
  text = spoken(completion)
  tagged = _TAGGED.findall(text)
  return (''.join(tagged[-1]) if tagged else text).strip()


def accepted(row: Mapping[str, Any]) -> list[str]:
  """The accepted answers of a row.

  Raises:
    ValueError: it has no "answer", or none that a text could equal.
  """
  answer = row.get('answer')
  answers = answer if isinstance(answer, list) else [answer]
  if not answers or not all(isinstance(x, str | int | float) for x in answers):
    raise ValueError(
      f'"answer" of the row is {answer!r}; make it a text, a number or a list'
      ' of them'
    )
  return [str(x) for x in answers]


def exact(completion: str, row: Mapping[str, Any]) -> bool:
  """Exact match, without case, punctuation and articles (grading.exact)."""
  return grading.exact(answer_of(completion), accepted(row))


def numeric(completion: str, row: Mapping[str, Any]) -> bool:
  """Equality as exact numbers: 3.5 is 7/2 (grading.number).

  Raises:
    ValueError: an accepted answer is no number.
  """
  values = [grading.number(x) for x in accepted(row)]
  if None in values:
    raise ValueError(f'"answer" of the row is {row["answer"]!r}, no number')
  return grading.number(answer_of(completion)) in values


def f1(completion: str, row: Mapping[str, Any]) -> float:
  """F₁ of the words with the best accepted answer (grading.f1)."""
  return grading.f1(answer_of(completion), accepted(row))


def unscored(completion: str, row: Mapping[str, Any]) -> float:
  """0 for everything: for prompts whose answers a judge scores."""
  del completion, row
  return 0.0


SHIPPED: dict[str, Callable] = {
  f.__name__: f for f in (exact, numeric, f1, unscored)
}
