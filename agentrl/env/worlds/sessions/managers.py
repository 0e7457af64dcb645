"""Scripted managers of a bank: an expert, and rules that ignore meaning."""

from collections.abc import Callable, Sequence

from agentrl.env.worlds.sessions import bank as banks
from agentrl.env.worlds.sessions.bank import GONE, Bank

# (fact, bank, numbers of the notes that are shown) -> a message
Manager = Callable[[str, Bank, Sequence[int]], str]


def expert(fact: str, bank: Bank, shown: Sequence[int]) -> str:
  """Keeps one note per subject, and none of what was retracted.

  It reads only the notes that are shown.
  """
  subject, value = split(fact)
  for number in shown:
    note = bank[number - 1]
    if note and split(note.text)[0] == subject:
      if value == GONE:
        return f'delete {number}'
      return 'noop' if note.text == fact else f'update {number} {fact}'
  # A task has room for all that holds, unless there is no memory at all.
  return 'noop' if value == GONE or None not in bank else f'add {fact}'


def append(fact: str, bank: Bank, shown: Sequence[int]) -> str:
  """Adds everything until the bank is full."""
  del shown  # it looks at none
  return f'add {fact}' if None in bank else 'noop'


def recency(fact: str, bank: Bank, shown: Sequence[int]) -> str:
  """Adds everything, in place of the oldest note once the bank is full."""
  if None in bank or not bank:
    return append(fact, bank, shown)
  ages = [note.session for note in banks.notes(bank)]
  return f'update {1 + ages.index(min(ages))} {fact}'


def nothing(fact: str, bank: Bank, shown: Sequence[int]) -> str:
  """Writes nothing."""
  del fact, bank, shown
  return 'noop'


MANAGERS: dict[str, Manager] = {
  'expert': expert,
  'append': append,
  'recency': recency,
  'none': nothing,
}


def split(fact: str) -> tuple[str, str]:
  """Splits a fact, or what a note says, into subject and value."""
  subject, _, value = fact.partition(' is ')
  return subject, value


def play(
  manager: Manager, facts: Sequence[str], size: int, shown: int
) -> tuple[list[str], Bank]:
  """Plays sessions with an empty bank at first.

  Args:
    facts: one per session
    size: of the bank
    shown: most notes that the manager sees in a session

  Returns:
    its messages, and the bank in the end
  """
  bank, said = banks.empty(size), []
  for session, fact in enumerate(facts):
    seen = banks.similar(bank, split(fact)[0], shown)
    said.append(manager(fact, bank, seen))
    changed = banks.apply(bank, banks.parse(said[-1]), session)
    bank = bank if changed is None else changed
  return said, bank
