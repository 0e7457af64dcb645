"""Hinted readings: the same messages with a text before what was read.

  before  hint  after  context less its first `replaces` tokens  message ...

What stands around the hint makes it a line of text, or the system message of a
chat template, whose own beginning it then replaces. A trajectory whose hint has
no tokens is read as it was sampled.
"""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.ops import counting
from agentrl.rollout import record as record_lib
from agentrl.rollout.record import Record
from agentrl.text import observation_tokens
from agentrl.types import Array, Batch, Rows


class HintFrame(NamedTuple):
  """Tokens around a hint, and how many of a context they replace."""

  before: tuple[int, ...] = ()
  after: tuple[int, ...] = ()
  replaces: int = 0

  def growth(self, size: int) -> int:
    """Bounds the tokens that hints of at most `size` tokens add to a row."""
    return max(len(self.before) + size + len(self.after) - self.replaces, 0)


class Hint(NamedTuple):
  """The hints of a reading."""

  source: str
  tokens: np.ndarray  # [n, H] i32, of tasks, of outcomes or of everyone
  length: np.ndarray  # [n] i32; 0: no hint
  frame: HintFrame
  line: int  # ends a line of a solution's messages

  def size(self, messages: int) -> int:
    """Returns the most tokens of a hint; messages: tokens of a trajectory's."""
    own = self.tokens.shape[1]
    return own + messages if self.source == 'solution' else own


class Guidance(NamedTuple):
  """Hints that attempts are sampled behind, and that no row has."""

  frame: HintFrame
  hints: Sequence[Sequence[int]]  # of each task; empty: none

  @property
  def growth(self) -> int:
    """The most tokens that it adds to a conversation."""
    return self.frame.growth(max(map(len, self.hints), default=0))

  def behind(self, task: int, ids: Sequence[int]) -> tuple[int, ...]:
    """Returns the conversation with the hint of a task before it."""
    hint, frame = self.hints[task], self.frame
    if not len(hint):
      return tuple(ids)
    begin = (*frame.before, *hint, *frame.after)
    return (*begin, *ids[frame.replaces :])


def hinted_rows(
  r: Record,
  hint: Array,
  length: Array,
  frame: HintFrame,
  version,
  t: int | None = None,
) -> Rows:
  """Returns the record's rows, a hint in each: nothing of them is trained on.

  Every turn has the hint where it has a row of its own; a row of a full
  history begins with it. Rows are those of the layout without hints, longer.

  Args:
    hint: [B, H] i32
    length: [B] i32, tokens of each hint; 0: none
    t: columns of a row of a full history; None: one row for each turn
  """
  width = hint.shape[1]
  b = hint.shape[0]

  def around(ids: tuple[int, ...]) -> tuple[Array, Array]:
    tokens = jnp.broadcast_to(jnp.asarray(ids, jnp.int32), (b, len(ids)))
    return tokens, jnp.full(b, len(ids))

  every = [around(frame.before), (hint, length), around(frame.after)]
  text, size = jax.vmap(observation_tokens.concat)(every)
  size = jnp.where(length > 0, size, 0)
  turns = jnp.arange(r.valid.shape[1])[None]
  first = jnp.ones_like(turns, bool) if t is None else turns == 0
  near = _put_before(r, text, size[:, None] * first, frame.replaces)
  if t is None:
    layout = record_lib.per_turn(near)
  else:
    layout = record_lib.full_history(near, t + frame.growth(width))
  return record_lib.rows(near, layout, version, weight=0.0)


def _put_before(r: Record, text: Array, size: Array, replaces: int) -> Record:
  """Returns the record with text[:size] for the first tokens of each context.

  Args:
    text: [B, H] i32
    size: [B, K] i32; 0: the context stays as it is
    replaces: tokens of a context that a text stands for
  """
  c, h = r.context.shape[2], text.shape[1]
  width = max(c, h + c - replaces)
  j = jnp.arange(width)[None, None]
  size = size[..., None]
  left = jnp.where(size > 0, replaces, 0)
  source = jnp.where(j < size, j, h + jnp.clip(j - size + left, 0, c - 1))

  def take(text, context):
    text = jnp.broadcast_to(text, (*context.shape[:2], h))
    both = jnp.concatenate([text, context], axis=2)
    return jnp.take_along_axis(both, source, axis=2)

  def beside(x):
    """Puts 0 beside a text: there is nothing to say of it."""
    return None if x is None else take(jnp.zeros((1, 1, h), x.dtype), x)

  return dataclasses.replace(
    r,
    context=take(text[:, None], r.context),
    context_len=r.context_len + (size - left)[..., 0],
    context_span=beside(r.context_span),
    context_weight=beside(r.context_weight),
  )


def solved_sibling(batch: Batch) -> Array:
  """Finds another solved attempt at the task, -1 where there is none: [B].

  Of those of the group that count, the one of the fewest tokens; of equal ones
  the first. Never the trajectory itself: it would be its own hint.
  """
  group, b = batch.ids['group'], batch.outcome.shape[0]
  solved = (batch.outcome > 0.5) & counting.trajectories(batch)
  size = jnp.sum(batch.turns.terms['tokens'], axis=1)
  other = ~jnp.eye(b, dtype=bool)
  able = (group[:, None] == group[None]) & solved[None] & other
  at = jnp.argmin(jnp.where(able, size[None], jnp.inf), axis=1)
  return jnp.where(jnp.any(able, axis=1), at, -1).astype(jnp.int32)


def messages_as_text(
  r: Record, which: Array, eot: int, line: int
) -> tuple[Array, Array]:
  """Returns the messages of a trajectory one after the other: [B, K M] and [B].

  Args:
    which: [B] i32, whose messages; -1: none
    eot, line: the end of a turn, and the token that stands for it here
  """
  k = r.valid.shape[1]
  at = jnp.maximum(which, 0)
  tokens = jnp.where(r.message == eot, line, r.message)[at]
  length = jnp.where(r.valid, r.message_len, 0)[at]
  parts = [(tokens[:, i], length[:, i]) for i in range(k)]
  text, size = jax.vmap(observation_tokens.concat)(parts)
  return text, jnp.where(which < 0, 0, size)
