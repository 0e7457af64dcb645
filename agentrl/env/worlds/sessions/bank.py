"""A bounded bank of notes, operations on it, and a scripted reader.

A note is one line with a number, its place in the bank:

  add Bako's tea is red
  update 2 Bako's tea is tan
  delete 2
  noop

A message holds one operation per line, and all of them happen or none does.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from agentrl.text import surrogates
from agentrl.text.tool_calls.base import spoken

LONGEST = 24  # characters of a note, enough for one fact
MOST = 4  # operations of a message
GONE = 'gone'  # the value of what was retracted
UNKNOWN = 'none'  # the answer where no value holds
_OPERATION = re.compile(
  r'(?:(add)|(update) ([0-9]{1,3})) (.+)|(delete) ([0-9]{1,3})|(noop)',
  re.IGNORECASE,
)
_FACT = re.compile(r"(\w+'s \w+) is (\w+)")
_WORD = re.compile(r'\w{2,}')


class Note(NamedTuple):
  """What was written, and in which session."""

  text: str
  session: int


Bank = tuple[Note | None, ...]  # by number - 1; None: a free place


class Operation(NamedTuple):
  """A change of the bank; number and text where its kind has them."""

  kind: str  # add, update, delete or noop
  number: int = 0
  text: str = ''


def empty(size: int) -> Bank:
  """Returns a bank with this many free places."""
  return (None,) * size


def parse(message: str) -> tuple[Operation, ...]:
  """Parses the operations of a message; () if any is not understood.

  A text is cut to `LONGEST` characters and its white space to single spaces, so
  that a note stays one line whatever it holds.
  """
  lines = [x.strip() for x in re.split(r'[\n;]', spoken(message))]
  lines = [x for x in lines if x]
  found = [_OPERATION.fullmatch(x) for x in lines[: MOST + 1]]
  read = [_operation(x) for x in found if x]
  return tuple(read) if len(read) == len(lines) <= MOST else ()


def apply(
  bank: Bank, operations: Sequence[Operation], session: int
) -> Bank | None:
  """Applies all operations in turn; None if any of them cannot be done.

  `add` needs a free place and takes the first; `update` and `delete` need a
  note of that number.
  """
  out: list[Note | None] = list(bank)
  for kind, number, text in operations:
    if kind == 'add':
      if None not in out:
        return None
      out[out.index(None)] = Note(text, session)
    elif kind != 'noop':
      if not 1 <= number <= len(out) or out[number - 1] is None:
        return None
      out[number - 1] = Note(text, session) if kind == 'update' else None
  return tuple(out)


def similar(bank: Bank, query: str, count: int) -> list[int]:
  """Ranks notes by the words they share with a query, newer ones first.

  Returns:
    the numbers of the best `count` of them, or of all if there are fewer
  """
  asked = set(_WORD.findall(query.lower()))
  ranks = [
    (-len(asked & set(_WORD.findall(note.text.lower()))), -note.session, i)
    for i, note in enumerate(bank, 1)
    if note
  ]
  return [i for *_, i in sorted(ranks)[:count]]


def read(notes: Sequence[Note], subject: str) -> str:
  """Returns the value of a subject in its newest note, in lower case.

  The scripted reader: it understands "Bako's tea is red" anywhere in a note and
  says `UNKNOWN` if nothing is stated, or that the value is gone.
  """
  stated = [
    (note.session, value)
    for note in notes
    for name, value in _FACT.findall(note.text.lower())
    if name == subject.lower()
  ]
  # Of two notes of one session the later one in the bank counts.
  value = sorted(stated, key=lambda x: x[0])[-1][1] if stated else GONE
  return UNKNOWN if value == GONE else value


def translated(bank: Bank, others: Mapping[str, str]) -> Bank:
  """Replaces words of all notes; which notes there are stays."""
  return tuple(
    note
    and note._replace(
      text=_WORD.sub(lambda x: others.get(x[0], x[0]), note.text)
    )
    for note in bank
  )


def notes(bank: Bank) -> list[Note]:
  """Returns the notes of a bank, in the order of their numbers."""
  return [note for note in bank if note]


def _operation(found: re.Match) -> Operation:
  add, update, changed, text, delete, deleted, noop = found.groups()
  kind = (add or update or delete or noop).lower()
  line = surrogates.replaced(' '.join((text or '').split()))[:LONGEST].strip()
  return Operation(kind, int(changed or deleted or 0), line)
