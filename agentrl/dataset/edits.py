"""Edits: functions from stored trajectories to stored trajectories.

Tokens and log-probs of what stays are never changed, nor made from text again.
An edit that changes nothing returns its argument; one that changes something
gives the source 'edited'. A turn k is its context c_k, which the model read,
and its message m_k; a predicate is called with (k, turn).

Where an edit changes what stands before a message, its log-probs stay those of
the context that the sampler saw: compute them again before forming ratios.
"""

from collections.abc import Callable, Collection, Sequence

import numpy as np

from agentrl import segment
from agentrl.dataset.trajectory import (
  StoredTrajectory,
  StoredTurn,
  single,
  status_of,
)
from agentrl.types import Span, Status

TurnPredicate = Callable[[int, StoredTurn], bool]


def cut_after(x: StoredTrajectory, turn: int) -> StoredTrajectory:
  """Turns 0 to `turn`, that one included; a later end leaves all of them.

  Outcome and rewards stay: the outcome is what the whole trajectory came to.
  The status becomes SCHEDULE, cut short on purpose. -1 leaves no turn.
  """
  count = max(turn + 1, 0)
  if count >= len(x.turns):
    return x
  turns = x.turns[:count]
  return _edited(x, turns)._replace(status=Status.SCHEDULE)


def cut_at_first(x: StoredTrajectory, where: TurnPredicate) -> StoredTrajectory:
  """Turns up to the first where the predicate holds, that one included."""
  chosen = [k for k, turn in enumerate(x.turns) if where(k, turn)]
  return cut_after(x, chosen[0]) if chosen else x


def splice(
  prefix: StoredTrajectory,
  k: int,
  continuation: StoredTrajectory,
  *,
  shared: int | None = None,
  correction: Sequence[StoredTurn] = (),
) -> StoredTrajectory:
  """Joins turns [0, k) of one, a correction, and another's from `shared` on.

  The first `shared` turns are common to both; turns [shared, k) are the bad
  ones, with weight 0 (Agent-R, arXiv:2501.11425: the first error, a reflection,
  and the good path). Contexts stay as they were read: with shared = 0 the task
  is read again. Task, outcome and status are the continuation's. The text fits
  together; the environment's state behind the bad turns need not be that of
  the good path.

  Args:
    shared: k by default: no turn is bad
    correction: turns in between, written for this
  Raises:
    ValueError: there are fewer turns, or histories differ.
  """
  shared = k if shared is None else shared
  sizes = len(prefix.turns), len(continuation.turns)
  if not 0 <= shared <= k <= sizes[0] or shared > sizes[1]:
    raise ValueError(
      f'splice with k={k}, shared={shared} of trajectories of {sizes[0]} and'
      f' {sizes[1]} turns; choose 0 <= shared <= k <= {sizes[0]} and shared <='
      f' {sizes[1]}'
    )
  if prefix.history != continuation.history:
    raise ValueError(
      f'{prefix.id} has history {prefix.history!r} and {continuation.id}'
      f' {continuation.history!r}; splice trajectories of one kind'
    )
  bad = tuple(_weighing(turn, 0.0) for turn in prefix.turns[shared:k])
  turns = (
    *prefix.turns[:shared],
    *bad,
    *correction,
    *continuation.turns[shared:],
  )
  made = _edited(continuation, turns)
  encoded = prefix.encoded or continuation.encoded
  return made._replace(encoded=encoded)


def drop_turns(x: StoredTrajectory, where: TurnPredicate) -> StoredTrajectory:
  """Sets the message weights of the chosen turns to 0; the context is kept."""
  return _each(x, lambda k, t: _weighing(t, 0.0) if where(k, t) else t)


def remove_turns(x: StoredTrajectory, where: TurnPredicate) -> StoredTrajectory:
  """Returns the chosen turns taken out, with what the environment answered.

  History 'full': message m_k and its answer c_{k+1} are taken out, and m_{k+1}
  follows c_k, as if it had been written there (CLEANER, deep
  replacement). Tokens are exact and the conversation is well-formed; log-probs
  of m_{k+1} and later are of the context with the error in it.
  History 'turn': the row of turn k is taken out; every other row has the very
  context that its message was sampled in, and its log-probs are exact.
  Rewards of the turns that are taken out are lost.

  Raises:
    ValueError: the history is unknown, or a tree.
  """
  chosen = [bool(where(k, turn)) for k, turn in enumerate(x.turns)]
  if not any(chosen):
    return x
  if x.history == 'turn':
    return _edited(
      x, (t for t, out in zip(x.turns, chosen, strict=True) if not out)
    )
  if x.history == 'tree':
    raise ValueError(
      f"trajectory {x.id} has history 'tree': a branch repeats turns that would"
      ' be taken out; leave it whole'
    )
  if not x.history:
    raise ValueError(
      f"the history of {x.id} is unknown; set it to 'full' or 'turn' with"
      ' _replace(history=...), as c.rollout.history of its run was'
    )
  turns: list[StoredTurn] = []
  first: StoredTurn | None = None  # of the turns taken out before this one
  for turn, out in zip(x.turns, chosen, strict=True):
    if out:
      first = first or turn
    else:
      turns.append(turn if first is None else _in_place_of(first, turn))
      first = None
  return _edited(x, turns)


def mask(
  x: StoredTrajectory,
  *,
  spans: Collection[Span] = (),
  where: TurnPredicate = lambda k, turn: True,
) -> StoredTrajectory:
  """Sets weights 0 on message tokens of the spans, in the chosen turns.

  A call has its arguments in it. Without spans nothing is masked; whole turns
  are `drop_turns`.
  """

  def masked(k: int, turn: StoredTurn) -> StoredTurn:
    inside = np.zeros(len(turn.message), bool)
    for which in spans:
      inside |= segment.in_span(turn.span, which)
    keep = not inside.any() or not where(k, turn)
    return turn if keep else _weighing(turn, np.where(inside, 0, turn.weight))

  return _each(x, masked)


def weighted(
  x: StoredTrajectory,
  weight: Callable[[int, StoredTurn], float | np.ndarray],
) -> StoredTrajectory:
  """Sets message weights by a function of (k, turn): [M] or a number.

  Raises:
    ValueError: they have another shape, or are negative or not finite.
  """

  def one(k: int, turn: StoredTurn) -> StoredTurn:
    w = np.asarray(weight(k, turn), np.float32)
    if w.shape not in ((), turn.message.shape):
      raise ValueError(
        f'weights of turn {k} have shape {w.shape} and its message has'
        f' {len(turn.message)} tokens; return one for each, or one number'
      )
    if not np.all(np.isfinite(w) & (w >= 0)):
      raise ValueError(
        f'weights of turn {k} are {w}; return finite numbers of at least 0'
      )
    return _weighing(turn, w)

  return _each(x, one)


def only_observations(x: StoredTrajectory) -> StoredTrajectory:
  """Puts weights on what the environment answered, and on nothing else.

    loss = −Σ_{k ≥ 1} log π(c_k | c_0 m_0 ... c_{k−1} m_{k−1})

  Implicit world modelling of Early Experience (arXiv:2510.08558), with the
  loss 'nll'. The first context, the task, is given. The model's own words
  that an observation repeats are of span OTHER where it has spans, and get 0.

  Raises:
    ValueError: rows do not have answers behind messages (history 'turn').
  """
  if len(x.turns) > 1 and x.history in ('turn', 'tree'):
    raise ValueError(
      f'trajectory {x.id} has history {x.history!r}: not every row has an'
      ' observation behind the message it answers; sample with'
      " c.rollout.history='full'"
    )

  def one(k: int, turn: StoredTurn) -> StoredTurn:
    answer = np.full(len(turn.context), float(k > 0), np.float32)
    if np.any(turn.context_span):
      answer *= turn.context_span != Span.OTHER
    return _weighing(turn, 0.0, answer)

  return _each(x, one)


def hindsight(
  x: StoredTrajectory,
  relabel: Callable[[StoredTrajectory], tuple[int | str, float] | None],
) -> StoredTrajectory:
  """Returns the trajectory with the task and outcome that a function gives it.

  For goals that were reached though another was set (hindsight experience
  replay, arXiv:1707.01495). None leaves it. Tokens stay: a task that stands in
  the context is the caller's to splice.
  """
  label = relabel(x)
  if label is None or label == (x.task, x.outcome):
    return x
  task, outcome = label[0], single(label[1])
  made = _edited(x, x.turns)
  return made._replace(task=task, outcome=outcome, status=status_of(outcome))


def _edited(x: StoredTrajectory, turns) -> StoredTrajectory:
  return x._replace(turns=tuple(turns), source='edited')


def _each(
  x: StoredTrajectory, f: Callable[[int, StoredTurn], StoredTurn]
) -> StoredTrajectory:
  turns = [f(k, turn) for k, turn in enumerate(x.turns)]
  same = all(a is b for a, b in zip(turns, x.turns, strict=True))
  return x if same else _edited(x, turns)


def _weighing(
  turn: StoredTurn, weight, context_weight: np.ndarray | None = None
) -> StoredTurn:
  """Gives the turn these weights, [M] or a number; itself if it has them."""
  size = turn.message.shape
  w = np.broadcast_to(np.asarray(weight, np.float32), size).copy()
  c = turn.context_weight if context_weight is None else context_weight
  if np.array_equal(w, turn.weight) and np.array_equal(c, turn.context_weight):
    return turn
  return turn._replace(weight=w, context_weight=c)


def _in_place_of(first: StoredTurn, turn: StoredTurn) -> StoredTurn:
  """Puts the turn's message behind the context the first one was written in."""
  return turn._replace(
    context=first.context,
    context_span=first.context_span,
    context_weight=first.context_weight,
    state=first.state,
  )
