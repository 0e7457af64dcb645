"""Stored trajectories as a Record, from which rows and batches are made.

  stored -> Record -> Layout -> Batch

are the rows that were sampled, bit for bit: tokens, segments, trajectories,
turns, spans, weights, log-probs, and the versions of sampled tokens (a Record
has none for what a model only reads: 0 there).
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from agentrl.dataset.trajectory import StoredTrajectory, StoredTurn, task_number
from agentrl.rollout import record as record_lib
from agentrl.rollout.record import Record
from agentrl.types import Array, Attempts, Span

# Terms that record.batch makes itself.
_MADE = ('env', 'tokens', 'entropy', 'invalid')


def to_record(
  trajectories: Sequence[StoredTrajectory],
  *,
  turns: int,
  context: int,
  message: int,
  row: int | None = None,
) -> Record:
  """Makes a record of padded host arrays, with the weights of tokens.

  Terms that a turn lacks are 0, and 'env' is the environment's reward; where
  there is none, the turn's.

  Args:
    turns, context, message: capacities: turns of a trajectory, tokens of a
      context and of a message
    row: tokens of a row, for rows of the whole history; None: a row a turn
  Raises:
    ValueError: a trajectory is larger, or its contexts are for the other rows.
  """
  for b, x in enumerate(trajectories):
    _check(b, x, turns, context, message, row)
  names = {n for x in trajectories for turn in x.turns for n in turn.terms}
  columns = sorted(names - set(_MADE))
  b, k = len(trajectories), turns
  out = record_lib.empty(b, k, context, message, columns, np)
  more: dict[str, Any] = {
    'version': np.zeros((b, k, message), np.int32),
    'scored': np.zeros((b, k), bool),
    'context_span': np.full((b, k, context), Span.OTHER, np.int8),
    'weight': np.zeros((b, k, message), np.float32),
    'context_weight': np.zeros((b, k, context), np.float32),
  }
  arrays: dict[str, Any] = {
    field.name: getattr(out, field.name) for field in dataclasses.fields(out)
  }
  for i, x in enumerate(trajectories):
    arrays['status'][i], arrays['outcome'][i] = x.status, x.outcome
    for j, turn in enumerate(x.turns):
      _put(arrays | more, (i, j), turn)
  return dataclasses.replace(out, **more)


def attempts(trajectories: Sequence[StoredTrajectory]) -> Attempts:
  """Returns the attempts that the trajectories were, for record.batch.

  A task that is a text has the index -1: it is in no task set.
  """
  tasks = [max(task_number(x.task), -1) for x in trajectories]
  turns = [max(len(x.turns), 1) for x in trajectories]

  def i32(values) -> Array:
    return jnp.asarray(np.array(values, np.int32))

  return Attempts(
    task=i32(tasks),
    group=i32([x.group for x in trajectories]),
    arm=i32([0] * len(turns)),
    limit=i32(turns),
    temperature=jnp.ones(len(turns)),
  )


def _put(out: dict[str, Any], at: tuple[int, int], turn: StoredTurn) -> None:
  """Writes one turn into the arrays of a record."""
  values, read, size = turn._asdict(), len(turn.context), len(turn.message)
  out['context_len'][at], out['message_len'][at] = read, size
  for name in ('context', 'context_span', 'context_weight'):
    out[name][at][:read] = values[name]
  for name in ('message', 'span', 'weight', 'logp', 'version'):
    out[name][at][:size] = values[name]
  for name in ('entropy', 'action', 'state', 'scored'):
    out[name][at] = values[name]
  out['reward'][at] = turn.terms.get('env', turn.reward)
  out['valid'][at] = True
  for name, column in out['columns'].items():
    column[at] = turn.terms.get(name, 0.0)


def _check(
  b: int,
  x: StoredTrajectory,
  turns: int,
  context: int,
  message: int,
  row: int | None,
) -> None:
  whole = sum(len(turn.context) + len(turn.message) for turn in x.turns)
  read = max((len(turn.context) for turn in x.turns), default=0)
  wrote = max((len(turn.message) for turn in x.turns), default=0)
  sizes = {
    'turns': (len(x.turns), turns),
    'tokens of a context': (read, context),
    'tokens of a message': (wrote, message),
    'tokens of a row': (0 if row is None else whole, row or 0),
  }
  for what, (size, capacity) in sizes.items():
    if size > capacity:
      raise ValueError(
        f'trajectory {b} ({x.id}) has {size} {what} and there is room for'
        f' {capacity}; give room for {size}, cut it, or leave it out'
      )
  wanted = 'turn' if row is None else 'full'
  if len(x.turns) > 1 and x.history not in ('', wanted):
    raise ValueError(
      f'trajectory {b} ({x.id}) was sampled with history {x.history!r} and rows'
      f' are to be of history {wanted!r}, which repeats or lacks context; train'
      f' on it with c.rollout.history={x.history!r} if there is such a one, or'
      ' leave it out'
    )
