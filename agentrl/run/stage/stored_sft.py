"""Supervised batches of stored trajectories, in place of demonstrations."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from agentrl import registry
from agentrl.configs import base
from agentrl.dataset import trajectory_store
from agentrl.dataset.trajectory import HISTORIES, StoredTrajectory
from agentrl.dataset.trajectory_store import TrajectoryStore
from agentrl.rollout import record as record_lib
from agentrl.rollout import stored
from agentrl.rollout.record import Record
from agentrl.run.experiment import Experiment
from agentrl.run.play import collect
from agentrl.types import Attempts, Batch


def open_store(s: Experiment) -> TrajectoryStore | None:
  """Opens the store that sft.store names; None: it names none.

  Raises:
    ValueError: there is none, it is damaged, or a trajectory does not fit.
  """
  c = s.config
  if not c.sft.store:
    return None
  store = trajectory_store.open_store(c.data, c.sft.store)
  check(s, store.heads, f'sft.store={c.sft.store!r}')
  return store


def check(s: Experiment, heads: np.ndarray, name: str) -> None:
  """Raises ValueError if a trajectory does not fit into the run's rows.

  Args:
    heads: [n] trajectory_store.HEAD
    name: of where they are from
  """
  if s.config.sft.pairs:
    listed = 'listed' in registry.provided(base.wiring(s.config))
    in_turn(heads, name, by_outcome=not listed)
  fits = [HISTORIES.index(x) for x in (s.plan.history, '')]
  wrong = ~np.isin(heads['history'], fits) & (heads['turns'] > 1)
  if np.any(wrong):
    place = int(np.argmax(wrong))
    other = HISTORIES[int(heads['history'][place])]
    fix = f'set rollout.history to {other!r}'
    if other == 'tree':  # branches, of programs or compacted conversations
      fix = 'build a store without it'
    raise ValueError(
      f'trajectory {place} of {name} has rows of history {other!r}, and this'
      f' run has {s.plan.history!r}; {fix}'
    )
  place = int(np.argmax(heads['word']))
  if (word := int(heads['word'][place])) >= s.shape.vocab:
    raise ValueError(
      f'trajectory {place} of {name} has the token {word},'
      f' and the model has {s.shape.vocab} words; build the store with the'
      " model's own tokenizer"
    )
  room = {
    'turns': (s.plan.turns, 'turns'),
    'context': (s.capacity.context, 'tokens in a context'),
    'message': (s.plan.message, 'tokens in a message'),
    'row': (_row(s), 'tokens in all'),
  }
  for field, (most, what) in room.items():
    place = int(np.argmax(heads[field]))
    size = int(heads[field][place])
    if most is not None and size > most:
      raise ValueError(
        f'trajectory {place} of {name} has {size} {what},'
        f' and this run has room for {most}; build a store without it, or give'
        ' rollout.max_turns, rollout.max_message_tokens or rollout.context room'
      )


def in_turn(heads: np.ndarray, name: str, by_outcome: bool = True) -> None:
  """Raises ValueError unless winners and losers of a task come in turn.

  Args:
    heads: [n] trajectory_store.HEAD
    name: of where they are from
    by_outcome: a winner's outcome is above the loser's
  """
  fix = 'edit the source into pairs, or import a file of preferences'
  if len(heads) % 2:
    raise ValueError(
      f'{name} must hold winners and losers in turn for sft.pairs, got'
      f' {len(heads)} trajectories, an odd number; {fix}'
    )
  win, lose = heads[::2], heads[1::2]
  wrong = win['task'] != lose['task']
  if by_outcome:
    wrong |= win['outcome'] <= lose['outcome']
  if np.any(wrong):
    place = int(np.argmax(wrong))
    one, other = win[place], lose[place]
    raise ValueError(
      f'{name} must hold winners and losers in turn for sft.pairs, got outcomes'
      f' {one["outcome"]} and {other["outcome"]} of tasks {one["task"]} and'
      f' {other["task"]} at {2 * place} and {2 * place + 1}; {fix}'
    )


def arrays(
  s: Experiment, trajectories: Sequence[StoredTrajectory]
) -> tuple[Record, Attempts]:
  """Packs trajectories as host arrays, of one shape for all batches."""
  record = stored.to_record(
    trajectories,
    turns=s.plan.turns,
    context=s.capacity.context,
    message=s.plan.message,
    row=_row(s),
  )
  # Terms differ from store to store, and nothing supervised reads them.
  record = dataclasses.replace(record, columns={})
  return record, stored.attempts(trajectories)


def batch(s: Experiment, record: Record, attempts: Attempts) -> Batch:
  """Makes rows of the trajectories, with the weights they were stored with."""
  layout = collect.layout(s, record)
  made = record_lib.batch(record, layout, attempts, 0)
  return collect.as_demonstrations(made)


def _row(s: Experiment) -> int | None:
  return None if s.plan.history == 'turn' else s.capacity.row
