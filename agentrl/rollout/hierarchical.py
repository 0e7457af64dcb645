"""Messages in three parts: keep or switch, a subgoal, an action (HiPER).

    yes left > left      a new subgoal, left, and its first action
    no left > left       the subgoal is kept

The first token decides, what follows up to the tag is the subgoal, and from
the tag on it is the action. Nothing forces this form on the policy: without a
tag all but the first token is a failed action.
"""

import chex
import jax.numpy as jnp
import numpy as np

from agentrl.rollout.record import Record
from agentrl.text.tokenizer import Tokenizer
from agentrl.types import Span


def mark(record: Record, switch: int, tag: int) -> Record:
  """Adds spans to the record, and column 'switch': 1 where a turn switches.

  Args:
    switch, tag: token ids
  """
  chex.assert_rank(record.message, 3)
  size = record.message.shape[2]
  place = jnp.arange(size)[None, None]
  used = place < record.message_len[..., None]
  tagged = jnp.where(used & (record.message == tag), place, size)
  start = jnp.min(tagged, axis=2, keepdims=True)
  start = jnp.where(start == size, 0, start)
  span = jnp.where(place < start, Span.SUBGOAL, Span.CALL)
  span = jnp.where(place == 0, Span.SWITCH, span)
  span = jnp.where(record.span == Span.PREFIX, Span.PREFIX, span)
  new = record.valid & (record.message[..., 0] == switch)
  columns = {**record.columns, 'switch': new.astype(jnp.float32)}
  return record.replace(span=span.astype(jnp.int8), columns=columns)


def token(words: Tokenizer, text: str, field: str) -> int:
  """Returns the token id of a word that marks a part of the message."""
  ids = words.encode(text, specials=True)
  if len(ids) != 1:
    raise ValueError(
      f'{field}={text!r} takes {len(ids)} tokens of tokenizer {words.name} and'
      " must take one; choose another word, such as 'yes', 'no' or '>'"
    )
  return ids[0]


def new_subgoals(actions: np.ndarray) -> np.ndarray:
  """Marks turns of a demonstration where the subgoal changes: [n, K]."""
  before = np.pad(actions[:, :-1], ((0, 0), (1, 0)), constant_values=-1)
  return (actions != before) & (actions >= 0)
