"""From what sessions said and heard on the host to arrays."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import jax
import numpy as np

from agentrl.rollout import record as record_lib
from agentrl.rollout.engine.engine import Spoken
from agentrl.rollout.record import Record
from agentrl.types import Attempts, Span, Status


class Said(NamedTuple):
  """A turn."""

  context: Sequence[int]  # tokens that were new to the model
  spoken: Spoken  # what it answered
  state: int  # hash of the observation
  reward: float
  invalid: bool
  facts: Mapping[str, float]


class Ended(NamedTuple):
  """A trajectory."""

  turns: Sequence[Said]
  status: Status
  score: float


def record(
  ended: Sequence[Ended], k: int, c: int, m: int, columns: Sequence[str]
) -> Record:
  """The record of trajectories, host arrays.

  Args:
    k, c, m: capacities: turns, tokens of a context and of a message
    columns: names of facts; one that a turn does not tell is 0
  """
  out = _empty(len(ended), k, c, m, columns)
  for b, trajectory in enumerate(ended):
    out.status[b], out.outcome[b] = trajectory.status, trajectory.score
    for i, turn in enumerate(trajectory.turns):
      _put(out, (b, i), turn)
  return out


def _put(out: Record, at: tuple[int, int], turn: Said) -> None:
  said = turn.spoken
  heard, size = len(turn.context), len(said.ids)
  out.context[at][:heard], out.context_len[at] = turn.context, heard
  out.message[at][:size], out.message_len[at] = said.ids, size
  out.logp[at][:size], out.version[at][:size] = said.logp, said.version
  out.entropy[at] = sum(said.entropy)
  out.action[at] = -1 if turn.invalid else 0
  out.reward[at], out.state[at], out.valid[at] = turn.reward, turn.state, True
  for name, column in out.columns.items():
    column[at] = turn.facts.get(name, 0.0)


def _empty(b: int, k: int, c: int, m: int, columns) -> Record:
  return Record(
    context=np.zeros((b, k, c), np.int32),
    context_len=np.zeros((b, k), np.int32),
    message=np.zeros((b, k, m), np.int32),
    message_len=np.zeros((b, k), np.int32),
    span=np.full((b, k, m), Span.OTHER, np.int8),
    logp=np.zeros((b, k, m), np.float32),
    version=np.zeros((b, k, m), np.int32),
    entropy=np.zeros((b, k), np.float32),
    action=np.full((b, k), -1, np.int32),
    reward=np.zeros((b, k), np.float32),
    columns={name: np.zeros((b, k), np.float32) for name in columns},
    state=np.zeros((b, k), np.int32),
    valid=np.zeros((b, k), bool),
    status=np.zeros(b, np.int32),
    outcome=np.zeros(b, np.float32),
  )


def given(
  attempts: Attempts, k: int, m: int
) -> Callable[[int, int], Spoken | None]:
  """(trajectory, turn) -> the message that its prefix repeats, or None."""
  p = attempts.prefix
  if p is None:
    return lambda b, turn: None
  prefix = jax.device_get(record_lib.given(p, k, m))

  def message(b: int, turn: int) -> Spoken | None:
    if turn >= prefix.turns[b]:
      return None
    n = int(prefix.length[b, turn])
    ids, logp, version = (
      x[b, turn, :n].tolist()
      for x in (prefix.tokens, prefix.logp, prefix.version)
    )
    # Rows have no entropy of single tokens; a record sums them again.
    entropy = [float(prefix.entropy[b, turn]) / max(n, 1)] * n
    return Spoken(b, ids, logp, entropy, version)

  return message
