"""Operations that a service writes on a bank of texts.

It sees the attempts of a group and some entries, and answers with a list in
JSON:

  [{"op": "ADD", "text": "..."}, {"op": "UPDATE", "entry": 3, "text": "..."},
   {"op": "DELETE", "entry": 4}, {"op": "NOOP"}]
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from agentrl.memory import texts
from agentrl.memory.texts import TextBank
from agentrl.recall import base
from agentrl.text import json_lists
from agentrl.text.tokenizer import Tokenizer
from agentrl.types import Written

FORM = (
  'Answer with a JSON list of operations: {"op": "ADD", "text": "..."},'
  ' {"op": "UPDATE", "entry": 0, "text": "..."}, {"op": "DELETE", "entry": 0}'
  ' or {"op": "NOOP"}.'
)
_CHARACTERS = 16  # of a token, at most; what is longer is not even encoded


class Operation(NamedTuple):
  """ADD has no entry, DELETE no text."""

  text: str = ''
  entry: int = -1


def question(
  instruction: str,
  entries: Mapping[int, str],
  attempts: Sequence[tuple[str, bool]],
) -> str:
  """Writes what a service is asked about a group.

  Args:
    entries: texts by their number in the bank
    attempts: the conversation of each, and whether it was solved
  """
  known = [f'{i}. {" ".join(text.split())}' for i, text in entries.items()]
  made = [
    f'Attempt {i} ({"solved" if solved else "not solved"}):\n{text}'
    for i, (text, solved) in enumerate(attempts, 1)
  ]
  listed = '\n'.join(known or ['none'])
  return '\n\n'.join([instruction, f'Entries:\n{listed}', *made, FORM])


def parsed(
  answer: str, known: Mapping[int, str]
) -> tuple[list[Operation], int]:
  """Reads an answer; also counts what of it could not be used.

  A text around the list does not matter. An operation on an entry that was not
  shown, without a text, or of another kind costs itself alone.
  """
  given = json_lists.read(answer)
  if given is None:
    return [], 1
  read = [_operation(x, known) for x in given]
  return [x for x in read if x], sum(x is None for x in read)


def _operation(x: Any, known: Mapping[int, str]) -> Operation | None:
  """Returns an operation; None: it cannot be used."""
  match x:
    case {'op': 'NOOP'}:
      return Operation()
    case {'op': 'ADD', 'text': str(text)} if text.strip():
      return Operation(text)
    case {'op': 'UPDATE', 'entry': int(i), 'text': str(text)}:
      return Operation(text, i) if i in known and text.strip() else None
    case {'op': 'DELETE', 'entry': int(i)}:
      return Operation('', i) if i in known else None
  return None


def shown(
  bank: TextBank, tokenizer: Tokenizer, most: int, read: Sequence[int]
) -> dict[int, str]:
  """Returns texts of entries: those that were read, then the best scored.

  Args:
    bank: host arrays
    most: entries at most
    read: entries that the group has read
  """
  live, own = bank.length > 0, {*tokenizer.specials().values(), tokenizer.pad}
  order = np.lexsort((bank.written, -texts.score(bank)))
  chosen = [i for i in dict.fromkeys([*read, *map(int, order)]) if live[i]]

  def text(i: int) -> str:
    ids = base.readable(tokenizer, base.entry_of(bank, i), own)
    return tokenizer.decode(ids)

  return {i: text(i) for i in chosen[:most]}


def earning(known: Mapping[int, str], bank: TextBank) -> dict[int, str]:
  """Returns the texts of entries with what their readers earn."""
  worth = texts.worth(bank)
  return {
    i: f'{text.rstrip()} (earned {worth[i]:.3f}, read {bank.read[i]:.1f})'
    for i, text in known.items()
  }


def written(
  made: Sequence[tuple[int, Sequence[Operation]]],
  bank: TextBank,
  tokenizer: Tokenizer,
  most: int,
) -> Written:
  """Returns the operations of all groups as arrays, `most` places for each.

  Args:
    made: of each group its task and its operations; more of them are left out
    bank: host arrays, that the entries are of
  """
  n, width = len(made) * most, bank.tokens.shape[1]
  tokens = np.zeros((n, width), np.int32)
  length, task = np.zeros(n, np.int32), np.zeros(n, np.int32)
  entry = np.full(n, -1, np.int32)
  for g, (of_group, operations) in enumerate(made):
    task[g * most : (g + 1) * most] = of_group
    for i, x in enumerate(operations[:most], g * most):
      ids = tokenizer.encode(x.text.strip()[: _CHARACTERS * width])[:width]
      tokens[i, : len(ids)], length[i], entry[i] = ids, len(ids), x.entry
  seen = np.where(entry >= 0, bank.written[np.maximum(entry, 0)], -1)
  on_host: dict[str, Any] = {
    'tokens': tokens,
    'length': length,
    'task': task,
    'entry': entry,
    'seen': seen.astype(np.int32),
    'reward': np.zeros(n, np.float32),
  }
  return Written(**on_host)
