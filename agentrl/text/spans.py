"""Parts of a message: thought, calls with their arguments, answers.

They follow the tool-call format: a part is a call if and only if the format
parses a call from it, and a thought if calls in it are ignored. Parts have the
lower-case names of `types.Span`, so that an environment's process, which
imports this, does not need JAX.
"""

import bisect
import itertools
import re
from collections.abc import Sequence
from typing import NamedTuple

from agentrl.text.tokenizer import Tokenizer
from agentrl.text.tool_calls.base import Call, Place, spoken

OTHER = 'other'  # what is none of the parts below
ANSWER = re.compile('<answer>(.*?)</answer>', re.DOTALL)


class Interval(NamedTuple):
  """Range of characters that form one part."""

  start: int
  end: int  # behind the last one
  part: str  # a name of `types.Span`, in small letters


def mark(text: str, places: Sequence[Place] = ()) -> list[Interval]:
  """Splits a message into parts, in order; text between them is OTHER.

    <think>six?</think><search>six</search>   <answer>6</answer>
    thought............call....arg...call     answer...........

  The thought extends to the first `</think>`, or over the whole text without
  one. Arguments are nested in their call. An unreadable call is OTHER, also
  inside a thought. An answer includes its tags, whether or not it ends the
  task.

  Args:
    places: of its calls, from `Format.locate`
  """
  parts = [OTHER] * len(text)

  def paint(start: int, end: int, part: str) -> None:
    parts[start:end] = [part] * (end - start)

  thought = len(text) - len(spoken(text))
  paint(0, thought, 'thought')
  for answer in ANSWER.finditer(text, thought):
    paint(*answer.span(), 'answer')
  for place in places:
    called = isinstance(place.call, Call)
    paint(*place.whole, 'call' if called else OTHER)
    if called:
      paint(*place.argument, 'argument')
  runs, end = [], 0
  for part, run in itertools.groupby(parts):
    start, end = end, end + sum(1 for _ in run)
    runs.append(Interval(start, end, part))
  return [run for run in runs if run.part != OTHER]


def to_tokens(
  words: Tokenizer, ids: Sequence[int], intervals: Sequence[Interval]
) -> list[str]:
  """Returns the part of each token, by its first character.

  Token j begins where `decode(ids[:j])` stops being a prefix of `decode(ids)`.
  All bytes of a character begin in it: an incomplete one decodes to U+FFFD,
  which differs.
  """
  text, parts = words.decode(ids), [OTHER] * len(ids)

  def begins(j: int) -> int:
    head = words.decode(ids[:j])
    if text.startswith(head):
      return len(head)
    pairs = enumerate(zip(head, text, strict=False))
    return next((i for i, (a, b) in pairs if a != b), len(text))

  for start, end, part in intervals:
    low, high = (
      bisect.bisect_left(range(len(ids)), x, key=begins) for x in (start, end)
    )
    parts[low:high] = [part] * (high - low)
  return parts
