"""The call by which a model drops turns of its own conversation.

  <drop>1 3</drop>Ann wants tea

Turns have numbers, which stand before what the model reads: turn k is its k-th
message with the answer `[k] ...`. What the message says beside the call is a
note: the message stays, so that one call deletes (without a note), folds (with
one) and keeps (what it does not name).
"""

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from agentrl.text import spans
from agentrl.text.tool_calls.base import Call, Format, ToolDescription

DROP = ToolDescription(
  'drop',
  'drops turns of this conversation by their numbers, which stand in brackets'
  ' before each answer; what else you say beside the call stays as your note',
  {
    'type': 'object',
    'properties': {'turns': {'type': 'string'}},
    'required': ['turns'],
  },
)
_MOST = 9  # digits of a number


class Edit(NamedTuple):
  """What a message asks of its conversation."""

  turns: tuple[int, ...]  # to drop, in order; () if it cannot be done
  answer: str  # what the model reads next
  invalid: bool = False


def label(turn: int) -> str:
  """Returns what stands before the answer to a message: `[turn] `."""
  return f'[{turn}] '


def write(form: Format, turns: Sequence[int], note: str = '') -> str:
  """Writes a message that drops turns and notes something."""
  return form.write([Call(DROP.name, {'turns': listed(turns)})]) + note


def read(form: Format, message: str, there: Collection[int]) -> Edit | None:
  """Reads the turns that a message drops; None if it calls no drop.

  A call that names nothing, or a turn that is not there, drops nothing and is
  answered with a sentence. Several calls of a message are one. Other calls
  beside them are not made.

  Args:
    there: numbers of the turns that can be dropped
  """
  calls = [x for x in form.parse(message, [DROP]) if isinstance(x, Call)]
  named = [x.args.get('turns') for x in calls if x.name == DROP.name]
  if not named:
    return None
  turns: set[int] = set()
  for value in named:
    numbers = re.findall(r'\d+', value) if isinstance(value, str) else []
    if not numbers or re.sub(r'[\d\s,]', '', str(value)):
      return Edit((), 'name turns by numbers, as in 1 2', invalid=True)
    turns |= {int(x[:_MOST]) for x in numbers}
  if lacking := sorted(turns - set(there)):
    known = f'use {listed(sorted(there))}' if there else 'there is none to drop'
    return Edit((), f'no turn {listed(lacking)}; {known}', invalid=True)
  return Edit(tuple(sorted(turns)), f'dropped {listed(sorted(turns))}')


def marked(form: Format, message: str) -> Sequence[spans.Interval]:
  """Marks the drop calls of a message, as `spans.mark` does."""
  return spans.mark(message, form.locate(message, [DROP]))


def listed(turns: Sequence[int]) -> str:
  """Returns the numbers as a call names them: '1 2'."""
  return ' '.join(map(str, turns))
