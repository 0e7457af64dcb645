"""Stored trajectories as a Record, from which rows and batches are made.

  stored -> Record -> Layout -> Batch

are the rows that were sampled, bit for bit: tokens, segments, trajectories,
turns, spans, weights, log-probs, and the versions of sampled tokens (a Record
has none for what a model only reads: 0 there).
"""

from collections.abc import Sequence

import numpy as np

from agentrl.dataset.trajectory import StoredTrajectory, StoredTurn, task_number
from agentrl.rollout import record as record_lib
from agentrl.rollout.record import Record
from agentrl.types import Attempts, Span

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
  """Record of padded host arrays, with the weights of tokens.

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
  sizes = len(trajectories), turns, context, message
  out = record_lib.empty(*sizes, columns, np)
  out = out.replace(
    version=np.zeros(out.message.shape, np.int32),
    scored=np.zeros(out.valid.shape, bool),
    context_span=np.full(out.context.shape, Span.OTHER, np.int8),
    weight=np.zeros(out.message.shape, np.float32),
    context_weight=np.zeros(out.context.shape, np.float32),
  )
  for b, x in enumerate(trajectories):
    out.status[b], out.outcome[b] = x.status, x.outcome
    for k, turn in enumerate(x.turns):
      _put(out, (b, k), turn)
  return out


def attempts(trajectories: Sequence[StoredTrajectory]) -> Attempts:
  """The attempts that the trajectories were, for record.batch.

  A task that is a text has the index -1: it is in no task set.
  """
  n = len(trajectories)
  tasks = [max(task_number(x.task), -1) for x in trajectories]
  return Attempts(
    task=np.array(tasks, np.int32),
    group=np.array([x.group for x in trajectories], np.int32),
    arm=np.zeros(n, np.int32),
    limit=np.array([max(len(x.turns), 1) for x in trajectories], np.int32),
    temperature=np.ones(n, np.float32),
  )


def _put(out: Record, at: tuple[int, int], turn: StoredTurn) -> None:
  read, size = len(turn.context), len(turn.message)
  out.context_len[at], out.message_len[at] = read, size
  for x, values in (
    (out.context, turn.context),
    (out.context_span, turn.context_span),
    (out.context_weight, turn.context_weight),
  ):
    x[at][:read] = values
  for x, values in (
    (out.message, turn.message),
    (out.span, turn.span),
    (out.weight, turn.weight),
    (out.logp, turn.logp),
    (out.version, turn.version),
  ):
    x[at][:size] = values
  out.entropy[at], out.action[at] = turn.entropy, turn.action
  out.reward[at] = turn.terms.get('env', turn.reward)
  out.state[at], out.scored[at], out.valid[at] = turn.state, turn.scored, True
  for name, column in out.columns.items():
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
  sizes = {
    'turns': (len(x.turns), turns),
    'tokens of a context': (_most(x, 'context'), context),
    'tokens of a message': (_most(x, 'message'), message),
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
      f' on it with c.rollout.history={x.history!r}, or leave it out'
    )


def _most(x: StoredTrajectory, field: str) -> int:
  index = StoredTurn._fields.index(field)
  return max((len(turn[index]) for turn in x.turns), default=0)
