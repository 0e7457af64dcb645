"""Purified trajectories: a failed call makes way for its correction (CLEANER).

Similarity-aware adaptive rollback, SAAR (arXiv 2601.15141). A run of turns
whose calls failed, followed by one whose calls did not, becomes one turn in the
place of the first of them. With s the similarity of the texts of two calls, of
the first failed turn k and of the successful turn j,

  s ≥ least   shallow: the thought of message k, then the call of message j
  s < least   deep: message j; also where one of the two makes no call

The paper rolls the conversation back while it is sampled; here the agent sees
the error and tries again as it would anyway, and the record is purified
afterwards, so that a trajectory has the same turns to spend. What comes after
a purified turn was sampled with the error in sight, and a spliced message was
sampled by nobody: their log-probs are 0, unknown, and a learner has to compute
them on the purified rows.
"""

import difflib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from agentrl.rollout.record import Record
from agentrl.types import Span


class PurifyRule(NamedTuple):
  """Which failures make way, and how.

  least: similarity of calls from which on the thought stays, in [0, 1]
  retries: turns after a failed one in which it may be corrected
  chance: of a trajectory to be purified, so that some practice to recover
  """

  least: float = 0.5
  retries: int = 3
  chance: float = 1.0


class Replacement(NamedTuple):
  """Turns first to last become one, whose message ends as the last's does.

  thought: tokens of the first message that stay
  call: the token of the last message from which on it follows
  """

  first: int
  last: int
  thought: int
  call: int


def purified(
  record: Record,
  rule: PurifyRule,
  chosen: np.ndarray,
  text: Callable[[Sequence[int]], str],
) -> Record:
  """Puts replacements into the chosen trajectories of a host-array record.

  Rewards and terms of a replaced turn are those of the correction; those of
  the failures are lost with them.

  Args:
    chosen: [B] bool
    text: of token ids
  """
  found = {
    int(b): replacements(record, int(b), rule, text)
    for b in np.flatnonzero(chosen)
  }
  found = {b: x for b, x in found.items() if x}
  if not found:
    return record
  out = jax.tree.map(np.array, record)  # which may be written to
  for b, several in found.items():
    for x in reversed(several):  # indices of earlier turns stay
      _replace(out, b, x)
    out.logp[b, several[0].first :] = 0
  return out


def replacements(
  record: Record,
  b: int,
  rule: PurifyRule,
  text: Callable[[Sequence[int]], str],
) -> list[Replacement]:
  """Lists replacements in trajectory b, in the order of its turns."""
  failed = record.columns['faults'][b] > 0
  calls = (record.columns['calls'][b] > 0) & record.valid[b]
  out, k, count = [], 0, int(record.valid[b].sum())
  while k < count:
    last = k
    while last < count and calls[last] and failed[last]:
      last += 1
    corrected = last < count and calls[last]
    if k < last <= k + rule.retries and corrected:
      out.append(_replacement(record, b, k, last, rule.least, text))
    k = last + 1
  return out


def _replacement(
  record: Record, b: int, first: int, last: int, least: float, text
) -> Replacement:
  thought, call = (_call_start(record, b, k) for k in (first, last))
  if thought is None or call is None:
    return Replacement(first, last, 0, 0)
  old, new = (
    text(record.message[b, k, start : record.message_len[b, k]].tolist())
    for k, start in ((first, thought), (last, call))
  )
  if difflib.SequenceMatcher(None, old, new).ratio() < least:
    return Replacement(first, last, 0, 0)
  return Replacement(first, last, thought, call)


def _call_start(record: Record, b: int, k: int) -> int | None:
  """Returns the first token of a call in the message of turn k."""
  span = record.span[b, k, : record.message_len[b, k]]
  at = np.flatnonzero((span == Span.CALL) | (span == Span.ARGUMENT))
  return int(at[0]) if at.size else None


# Of the tokens of a message, and of what the model read before it.
_MESSAGE = ('message', 'span', 'logp', 'version', 'weight')
_CONTEXT = ('context', 'context_len', 'context_span', 'context_weight', 'state')


def _replace(out: Record, b: int, x: Replacement) -> None:
  """Joins turns [first, last] of trajectory b; later ones move up."""
  arrays: dict[str, Any] = {
    k: x for k, x in vars(out).items() if isinstance(x, np.ndarray)
  }
  size = int(out.message_len[b, x.last]) - x.call
  room = out.message.shape[2] - x.thought
  if size > room:  # the thought and the call are too long for a message
    x, size = x._replace(thought=0, call=0), int(out.message_len[b, x.last])
  for name in _MESSAGE:
    if name in arrays:
      tokens = arrays[name][b]
      end = tokens[x.last, x.call : x.call + size].copy()
      tokens[x.last] = tokens[x.first]
      tokens[x.last, x.thought : x.thought + size] = end
      tokens[x.last, x.thought + size :] = 0
  out.message_len[b, x.last] = x.thought + size
  for name in _CONTEXT:
    if name in arrays:
      arrays[name][b, x.last] = arrays[name][b, x.first]
  gone = x.last - x.first
  per_turn = [a for a in arrays.values() if a.ndim > 1]
  for table in [*per_turn, *out.columns.values()]:
    table[b, x.first :] = np.roll(table[b, x.first :], -gone, axis=0)
  out.valid[b, out.valid.shape[1] - gone :] = False
