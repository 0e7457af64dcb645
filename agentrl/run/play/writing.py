"""Has a service write texts about a batch, while it is made."""

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from agentrl.memory import likeness, texts
from agentrl.memory.texts import TextBank
from agentrl.recall import operations
from agentrl.recall.operations import Operation
from agentrl.rollout.pack import Episode
from agentrl.runtime import distributed
from agentrl.service.base import Service, ServiceFault
from agentrl.text.message import Message
from agentrl.text.tokenizer import Tokenizer
from agentrl.types import Attempts, Status, Written


def check(settings: Mapping[str, Any], tokenizer: Tokenizer) -> None:
  """Raises ValueError where a bank cannot begin with the texts it is given.

  A text that is longer than an entry would be cut, and of two that are alike
  one would not be written, so that its place would not stay.
  """
  first, most = settings.get('first', ()), settings.get('tokens', 0)
  for text in first:
    size = len(tokenizer.encode(text.strip()))
    if size > most:
      raise ValueError(
        'hp.memory.texts.tokens must be at least the tokens of each text of'
        f' hp.memory.texts.first, got {most} with {size} of {text!r:.80}'
      )
  if not first:
    return
  made = [(0, [Operation(text) for text in first])]
  new = operations.written(made, texts.empty(1, most, 1), tokenizer, len(first))
  same = np.asarray(likeness.alike(new, new, settings['merge']))
  for i, j in zip(*np.nonzero(np.tril(same, -1)), strict=True):
    raise ValueError(
      'hp.memory.texts.first must be texts less alike than'
      f' hp.memory.texts.merge={settings["merge"]!r}, got {first[j]!r:.80} and'
      f' {first[i]!r:.80}'
    )


def write(
  service: Service,
  settings: dict[str, Any],
  tokenizer: Tokenizer,
  attempts: Attempts,
  ended: Sequence[Episode],
  conversation: Callable[[int], str],
) -> tuple[Written, int]:
  """Asks a service; returns operations, and how many were not usable.

  It is asked about every group, or once about the batch. An empty bank gets the
  texts that it begins with, and no service is asked; nor is it where the bank
  is missing, in a step without.

  Args:
    settings: of the memory that is written to
    attempts: with the bank
    ended: the trajectory of each
    conversation: of an attempt, as text
  """
  attempts = jax.device_get(attempts)
  group, bank = np.asarray(attempts.group), attempts.texts
  once = settings['about'] == 'batch'
  whole = np.array(
    [bool(x.turns) and x.status != Status.ENV_ERROR for x in ended]
  )
  groups = [np.arange(len(group))]
  if not once:
    groups = [np.flatnonzero(group == g) for g in np.unique(group)]

  def tell(members: np.ndarray) -> tuple[list[Operation], int]:
    played = members[whole[members]]
    if once:
      failed = np.array([ended[b].score <= 0.5 for b in played], bool)
      played = of_best(attempts, played, failed, settings['shown'])
    tried = [(conversation(b), ended[b].score > 0.5) for b in played.tolist()]
    if not tried:
      return [], 0
    if settings['contrast'] and len({solved for _, solved in tried}) < 2:
      return [], 0
    return _asked(service, settings, tokenizer, bank, _read(attempts, members),
                  tried, place=int(members[0]))  # fmt: skip

  def mine():
    return [tell(groups[g]) for g in distributed.share(len(groups))]

  tasks = [int(attempts.task[members[0]]) for members in groups]
  told: list[tuple[list[Operation], int]] = [([], 0) for _ in groups]
  if bank is None:
    bank = texts.empty(1, settings['tokens'], 1)
  elif settings['first'] and not np.any(bank.length):
    told[0] = [Operation(text) for text in settings['first']], 0
  else:
    told = [x for some in distributed.allgather_objects(mine) for x in some]
  made = [(task, x) for task, (x, _) in zip(tasks, told, strict=True)]
  most = settings['operations']
  written = operations.written(made, jax.device_get(bank), tokenizer, most)
  return written, sum(refused for _, refused in told)


def of_best(
  attempts: Attempts, played: np.ndarray, failed: np.ndarray, most: int
) -> np.ndarray:
  """Chooses attempts that have read the best entry, failures first: [n].

  The best is worth most of those that were read (texts.worth); where none was,
  all attempts are chosen from.

  Args:
    played: [P] attempts to choose from
    failed: [P] bool, those that failed
    most: of them all
  """
  order = played[np.argsort(~failed, kind='stable')]
  if attempts.notes is None:
    return order[:most]
  entry = np.asarray(attempts.notes.entry)[order]  # [P, k]
  some = np.unique(entry[entry >= 0])
  if some.size:
    best = some[np.argmax(texts.worth(attempts.texts)[some])]
    order = order[np.any(entry == best, axis=1)]
  return order[:most]


def _read(attempts: Attempts, members: np.ndarray) -> list[int]:
  """Returns the entries that any of some attempts has read."""
  if attempts.notes is None:
    return []
  entries = np.asarray(attempts.notes.entry)[members]
  return np.unique(entries[entries >= 0]).tolist()


def _asked(
  service: Service,
  settings: dict[str, Any],
  tokenizer: Tokenizer,
  bank: TextBank,
  read: Sequence[int],
  tried: Sequence[tuple[str, bool]],
  *,
  place: int,
) -> tuple[list[Operation], int]:
  """Asks about some attempts; seeds are such that runs repeat."""
  known = operations.shown(bank, tokenizer, settings['shown'], read)
  entries, seed = known, place
  once = settings['about'] == 'batch'
  if once:
    entries = operations.earning(known, bank)
  text = operations.question(settings['instruction'], entries, tried)
  if once:  # a question of each batch has the same place
    seed = zlib.crc32(text.encode()) >> 1
  try:
    answer = service([Message('user', text)], seed=seed)
  except ServiceFault:
    return [], 1
  return operations.parsed(answer, known)
