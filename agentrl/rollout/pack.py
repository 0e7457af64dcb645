"""Packs host episodes into a Record."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from agentrl.rollout import keys
from agentrl.rollout import record as record_lib
from agentrl.rollout.engine.engine import Completion
from agentrl.rollout.limits import EpisodeLimits
from agentrl.rollout.record import Record
from agentrl.types import Attempts, Messages, Span, Status


class TurnData(NamedTuple):
  """A turn."""

  context: Sequence[int]  # tokens that were new to the model
  spoken: Completion  # its message
  state: int  # hash of the observation
  reward: float
  invalid: bool
  info: Mapping[str, float]
  span: Sequence[int] = ()  # of the message's tokens, see Span; (): all OTHER
  context_span: Sequence[int] = ()  # of the context's
  observation: str = ''  # before its message
  branch: bool = False  # begins a segment: its context is all that it reads


class Episode(NamedTuple):
  """A trajectory."""

  turns: Sequence[TurnData]
  status: Status
  score: float
  fault: str = ''  # why its environment broke, where it did


class Drawn(NamedTuple):
  """What attempts draw by, and the messages that they repeat."""

  keys: Any  # [B, K, 2] u32 of messages
  seeds: Sequence[int]  # [B] of environments
  # (attempt, turn, state) -> the message that is repeated; None: none is
  given: Callable[[int, int, int], Completion | None]


def drawn(attempts: Attempts, key: jax.Array, limits: EpisodeLimits) -> Drawn:
  """Returns what attempts draw by the key of an iteration and repeat."""
  k, m = limits.turns, limits.message
  own, seeds = jax.device_get(keys.host_keys(attempts, key, k))
  return Drawn(own, seeds, given(attempts, k, m))


def record(
  ended: Sequence[Episode],
  k: int,
  c: int,
  m: int,
  columns: Sequence[str],
  *,
  branches: bool = False,
  weightless: str = '',
) -> Record:
  """Returns the record of trajectories, host arrays.

  Args:
    k, c, m: capacities: turns, tokens of a context and of a message
    columns: names of info values; 0 where a turn has none
    branches: whether turns may begin segments
    weightless: info value of the turns whose messages have weight 0; '': none
  """
  out = record_lib.empty(len(ended), k, c, m, columns, np)
  out = out.replace(
    version=np.zeros(out.message.shape, np.int32),
    context_span=np.full(out.context.shape, Span.OTHER, np.int8),
  )
  for b, trajectory in enumerate(ended):
    out.status[b], out.outcome[b] = trajectory.status, trajectory.score
    for i, turn in enumerate(trajectory.turns):
      _put(out, (b, i), turn)
  if branches:
    first = np.zeros(out.valid.shape, np.int32)
    for b, trajectory in enumerate(ended):
      size = len(trajectory.turns)
      first[b, 1:size] = [turn.branch for turn in trajectory.turns[1:]]
    out = out.replace(seg=np.cumsum(first, axis=1, dtype=np.int32))
  return record_lib.weightless(out, weightless) if weightless else out


def _put(out: Any, at: tuple[int, int], turn: TurnData) -> None:
  """Writes a turn into the host arrays of a Record."""
  message = turn.spoken
  length, size = len(turn.context), len(message.ids)
  out.context[at][:length], out.context_len[at] = turn.context, length
  out.message[at][:size], out.message_len[at] = message.ids, size
  out.span[at][: len(turn.span)] = turn.span
  out.context_span[at][: len(turn.context_span)] = turn.context_span
  out.logp[at][:size], out.version[at][:size] = message.logp, message.version
  out.entropy[at] = sum(message.entropy)
  out.action[at] = -1 if turn.invalid else 0
  out.reward[at], out.state[at], out.valid[at] = turn.reward, turn.state, True
  for name, column in out.columns.items():
    column[at] = turn.info.get(name, 0.0)


def given(
  attempts: Attempts, k: int, m: int
) -> Callable[[int, int, int], Completion | None]:
  """Maps (trajectory, turn, state) -> the message its prefix has, or None.

  None, too, where another state was answered (types.Prefix).
  """
  p = attempts.prefix
  if p is None:
    return lambda b, turn, state: None
  turns, prefix = jax.device_get((p.turns, record_lib.given(p, k, m)))
  states, of = np.full((len(turns), k), -1), p.messages
  if of.state is not None:
    states = np.asarray(jax.device_get(of.state))
    states = states if isinstance(of, Messages) else states[of.origin]

  def message(b: int, turn: int, state: int) -> Completion | None:
    if turn >= turns[b] or states[b, turn] not in (-1, state):
      return None
    n = int(prefix.length[b, turn])
    ids, logp, version = (
      x[b, turn, :n].tolist()
      for x in (prefix.tokens, prefix.logp, prefix.version)
    )
    # Rows have no entropy of single tokens; a record sums them again.
    entropy = [float(prefix.entropy[b, turn]) / max(n, 1)] * n
    return Completion(b, ids, logp, entropy, version)

  return message
