"""Has a service write texts about the groups of a batch, while it is made."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from agentrl.memory.texts import TextBank
from agentrl.recall import operations
from agentrl.recall.operations import Operation
from agentrl.rollout.pack import Episode
from agentrl.runtime import distributed
from agentrl.service.base import Service, ServiceFault
from agentrl.text.message import Message
from agentrl.text.tokenizer import Tokenizer
from agentrl.types import Attempts, Status, Written


def write(
  service: Service,
  settings: dict[str, Any],
  tokenizer: Tokenizer,
  attempts: Attempts,
  ended: Sequence[Episode],
  conversation: Callable[[int], str],
) -> tuple[Written, int]:
  """Asks about every group; returns operations, and how many were not usable.

  Args:
    settings: of the memory that is written to
    attempts: with the bank
    ended: the trajectory of each
    conversation: of an attempt, as text
  """
  attempts = jax.device_get(attempts)
  group, bank = np.asarray(attempts.group), attempts.texts
  groups = [np.flatnonzero(group == g) for g in np.unique(group)]

  def tell(members: np.ndarray) -> tuple[list[Operation], int]:
    whole = [b for b in members.tolist() if ended[b].turns]
    whole = [b for b in whole if ended[b].status != Status.ENV_ERROR]
    tried = [(conversation(b), ended[b].score > 0.5) for b in whole]
    if not tried:
      return [], 0
    if settings['contrast'] and len({solved for _, solved in tried}) < 2:
      return [], 0
    return _asked(service, settings, tokenizer, bank, _read(attempts, members),
                  tried, seed=int(members[0]))  # fmt: skip

  def mine():
    return [tell(groups[g]) for g in distributed.share(len(groups))]

  told = [x for some in distributed.allgather_objects(mine) for x in some]
  tasks = [int(attempts.task[members[0]]) for members in groups]
  made = [(task, x) for task, (x, _) in zip(tasks, told, strict=True)]
  most = settings['operations']
  written = operations.written(made, bank, tokenizer, most)
  return written, sum(refused for _, refused in told)


def _read(attempts: Attempts, members: np.ndarray) -> list[int]:
  """Returns the entries that a group has read."""
  if attempts.notes is None:
    return []
  entries = np.asarray(attempts.notes.entry)[members[0]]
  return entries[entries >= 0].tolist()


def _asked(
  service: Service,
  settings: dict[str, Any],
  tokenizer: Tokenizer,
  bank: TextBank,
  read: Sequence[int],
  tried: Sequence[tuple[str, bool]],
  *,
  seed: int,
) -> tuple[list[Operation], int]:
  """Asks about a group; the seed is its place, so that runs repeat."""
  known = operations.shown(bank, tokenizer, settings['shown'], read)
  text = operations.question(settings['instruction'], known, tried)
  try:
    answer = service([Message('user', text)], seed=seed)
  except ServiceFault:
    return [], 1
  return operations.parsed(answer, known)
