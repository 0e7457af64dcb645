"""Edits that compare trajectories at one task, see `edit_components`."""

import collections
import functools
import itertools
import math
from collections.abc import Sequence
from typing import Annotated

import numpy as np

from agentrl import registry
from agentrl.dataset import edits
from agentrl.dataset.trajectory import StoredTrajectory, StoredTurn, make_turn
from agentrl.domain import (
  Count,
  Count0,
  Named,
  NotNegative,
  Number,
  OneOf,
  Positive,
  Text,
  Tuple,
)
from agentrl.text.tokenizer import Tokenizer
from agentrl.types import Span, Status

Trajectories = Sequence[StoredTrajectory]
Template = Annotated[str, Text('a text', empty=False)]
Texts = Annotated[tuple[str, ...], Tuple(Text('a text', empty=False), least=1)]


@registry.register('edit', needs=('tokenizer',))
def splice_correction(
  xs: Trajectories,
  *,
  words: Tokenizer,
  term: Named = 'progress',
  bad: Number = -1e-6,
  good: Number = 0.5,
  gap: NotNegative = 0.2,
  texts: Texts = ('wait',),
  max_turns: Count0 = 0,
):
  """Splices failures up to their error, a correction, a good path (Agent-R).

    bad turns [0, k]  correction  turns [j, n) of a good one of the same group

  arXiv 2501.11425. k is the first turn of the bad trajectory whose term is
  `bad` or less: a verdict, or the world's progress; j, at most k + 1, is how
  many turns both have in common. The good one has an outcome above `good`, the
  bad one's is lower by more than `gap`. Of several good ones, of which a turn
  is left, it is that of most common turns before k, then one that has not made
  the error as well, then that of fewest turns. Weights are 1 on the correction,
  0 before, and those of the good one after it. The correction names no action,
  and its context is what the world answered to the error.

  Bad trajectories without an error, or that end with it, and those without a
  good one, are left out. So are equal results but the first.

  Args:
    words: tokenizer of the run
    texts: corrections, of which spliced trajectories take one each in turn
    max_turns: turns of a result, at most; 0: any number
    term: what values a turn
    bad: an error has this value or less
    good: a good trajectory has an outcome above this
    gap: by how much more than the bad one
  Raises:
    ValueError: rows hold single turns, so that no error would be read.
  """
  if any(x.history == 'turn' and len(x.turns) > 1 for x in xs):
    raise ValueError(
      "edit 'splice_correction' has errors read before they are corrected, and"
      " rows of rollout.history='turn' hold a turn each; set it to 'full'"
    )
  goods = collections.defaultdict(list)
  for x in xs:
    if x.outcome > good and x.turns:
      goods[x.task, x.group, x.step].append(x)
  messages = [[*words.encode(text), words.eot] for text in texts]
  out: dict[str, StoredTrajectory] = {}
  for failed in xs:
    wrong = [t.terms.get(term, math.inf) <= bad for t in failed.turns]
    cut = wrong.index(True) + 1 if any(wrong) else len(wrong)
    better = [
      (min(shared_turns(failed, y), cut), y)
      for y in goods[failed.task, failed.group, failed.step]
      if y.outcome - failed.outcome > gap
    ]
    better = [(same, y) for same, y in better if same < len(y.turns)]
    if cut >= len(wrong) or not better:
      continue
    same, best = max(better, key=functools.partial(_fitness, error=cut - 1))
    turn = failed.turns[cut]
    message = messages[len(out) % len(messages)]
    correction = make_turn(
      turn.context,
      message,
      context_span=turn.context_span,
      action=-1,
      state=turn.state,
    )
    made = edits.splice(failed, cut, best, shared=same, correction=[correction])
    made = edits.drop_turns(made, lambda k, turn: k < cut)
    if not max_turns or len(made.turns) <= max_turns:
      out.setdefault(made.id, made)
  return [*out.values()]


def _fitness(pair: tuple[int, StoredTrajectory], error: int) -> tuple:
  """Returns what a good trajectory is chosen by, of (common turns, itself)."""
  same, good = pair
  return min(same, error), same <= error, -len(good.turns)


@registry.register('edit')
def recoveries(xs: Trajectories):
  """Keeps what was solved from where an expert's failure could be mended (EEF).

  arXiv 2504.13145. A group are attempts that begin with the first l turns of
  one failed trajectory, of several lengths l (prefix 'spaced_prefix').

    S(l) = one of them solved the task
    r    = the largest l with S(l) that follows an l' without

  Solved attempts of length 0 and of length r stay. Weights are 1 on what the
  policy wrote, and on turns [l', l) of the expert, l' and l next to each other,
  where not S(l'): the policy could not do without them. Those after a solved
  state are of no use or harmful, and weigh 0. Groups without a prefix and equal
  trajectories but the first are left out.
  """
  groups = collections.defaultdict(list)
  for x in xs:
    groups[x.step, x.group].append((given_turns(x), x))
  out: dict[str, StoredTrajectory] = {}
  for group in groups.values():
    solved: dict[int, bool] = {}
    for given, x in group:
      solved[given] = solved.get(given, False) or x.solved
    lengths = sorted(solved)
    if lengths[-1] == 0:
      continue
    steps = [*itertools.pairwise(lengths)]
    turning = [b for a, b in steps if solved[b] and not solved[a]]
    needed = {k for a, b in steps if not solved[a] for k in range(a, b)}
    for given, x in group:
      if x.solved and given in (0, *turning[-1:]):
        made = _expert_weighed(x, given, needed)
        out.setdefault(made.id, made)
  return [*out.values()]


def _expert_weighed(
  x: StoredTrajectory, given: int, needed: set[int]
) -> StoredTrajectory:
  """Sets weight 1 on needed ones of the given turns, 0 on the others."""

  def weight(k: int, turn: StoredTurn):
    return turn.weight if k >= given else float(k in needed)

  return edits.weighted(x, weight)


@registry.register('edit')
def own_transitions(xs: Trajectories):
  """Keeps where the first own action behind a prefix leads (Early Experience).

    loss = -log π(s'_j | s_0 a_0 .. s_i a_j)   for alternatives j at state i

  arXiv 2510.08558, implicit world modelling: the weight is 1 on the observation
  behind the action and 0 on all else. Equal transitions but the first, and
  attempts that ended with the action, whose state nobody read, are left out.

  Raises:
    ValueError: as `edits.only_observations`
  """
  out: dict[tuple, StoredTrajectory] = {}
  for x in xs:
    i = given_turns(x)
    if len(x.turns) < i + 2:
      continue
    made = edits.only_observations(edits.cut_after(x, i + 1))
    turns = [
      t if k > i else t._replace(context_weight=np.zeros_like(t.context_weight))
      for k, t in enumerate(made.turns)
    ]
    key = *_history(x, i), x.turns[i].message.tobytes()
    seen = x.turns[i + 1].context.tobytes()
    out.setdefault((*key, seen), made._replace(turns=tuple(turns)))
  return [*out.values()]


@registry.register('edit', needs=('tokenizer',))
def reflections(
  xs: Trajectories,
  *,
  words: Tokenizer,
  term: Named = 'progress',
  least: Positive = 1e-6,
  prefix: Annotated[str, Text('a text')] = 'so ',
  loses: Template = '{other} loses',
  idles: Template = '{other} idles',
  most: Count = 2,
):
  """Explains why the expert's action is better than others (Early Experience).

    loss = -log π(c_i, a_i | s_0 a_0 .. s_i)

  arXiv 2510.08558, self-reflection. a_i is the action of a prefix, the a_j are
  what the policy did in the same state of other attempts, and c_i says what
  they came to, by rule: `loses` where the term of the turn is below 0, `idles`
  where it is only below the expert's by `least`. Invalid actions and such as
  are no worse are left out, and so are states without any other.

  Args:
    words: tokenizer of the run
    prefix: text before an action, rollout.action_prefix
    loses, idles: texts, of {other}, joined by commas
    most: actions that are compared with the expert's
    term: what values an action
    least: by how much the expert must be better
  """

  def did(turn: StoredTurn) -> str:
    said = words.decode([t for t in turn.message.tolist() if t != words.eot])
    return said.rpartition(prefix)[2] if prefix else said

  expert: dict[tuple, tuple[StoredTrajectory, int]] = {}
  others = collections.defaultdict[tuple, dict[str, float]](dict)
  for x in xs:
    i = given_turns(x)
    for k in range(i):
      expert.setdefault(_history(x, k), (x, k))
    if i < len(x.turns) and not x.turns[i].terms.get('invalid', 0.0):
      value = x.turns[i].terms.get(term, 0.0)
      others[_history(x, i)].setdefault(did(x.turns[i]), value)
  out = []
  for key, (x, k) in expert.items():
    best, own = x.turns[k].terms.get(term, 0.0), did(x.turns[k])
    worse = [
      (loses if value < 0 else idles).format(other=action)
      for action, value in others[key].items()
      if value < best - least and action != own
    ]
    if worse:
      why = words.encode(', '.join([*worse[:most], '']))
      out.append(_reflected(x, k, why))
  return out


def _reflected(
  x: StoredTrajectory, k: int, why: Sequence[int]
) -> StoredTrajectory:
  """Turns 0 to k, of which the last thinks first and alone has a weight."""
  turn = x.turns[k]
  thought = make_turn(
    turn.context,
    [*why, *turn.message.tolist()],
    context_span=turn.context_span,
    reward=turn.reward,
    action=turn.action,
    state=turn.state,
    terms=turn.terms,
  )
  before = edits.drop_turns(edits.cut_after(x, k - 1), lambda *_: True)
  return before._replace(
    turns=(*before.turns, thought), status=Status.SCHEDULE, source='edited'
  )


def _history(x: StoredTrajectory, k: int) -> tuple:
  """Returns what is equal for trajectories in the same state at turn k."""
  before = [(t.context.tobytes(), t.message.tobytes()) for t in x.turns[:k]]
  return x.task, *before, x.turns[k].context.tobytes()


def given_turns(x: StoredTrajectory) -> int:
  """Counts the first turns that the policy did not write."""
  wrote = [not np.any(turn.span == Span.PREFIX) for turn in x.turns]
  return wrote.index(True) if any(wrote) else len(wrote)


@registry.register('edit')
def best_of_group(xs: Trajectories):
  """Keeps one trajectory of each group: best outcome, then most votes (RISE).

  A vote for a last message is a trajectory of that outcome which ends with it;
  of equal ones the first. Of attempts with one prefix, the last turns are best
  of N in one state (arXiv 2407.18219).
  """
  groups = collections.defaultdict(list)
  for x in xs:
    groups[x.step, x.group].append(x)
  out = []
  for group in groups.values():
    most = max(x.outcome for x in group)
    best = [x for x in group if x.outcome == most]
    last = [x.turns[-1].message.tobytes() if x.turns else b'' for x in best]
    votes = collections.Counter(last)
    out.append(best[max(range(len(best)), key=lambda i: votes[last[i]])])
  return out


@registry.register('edit')
def keep_attempts(
  xs: Trajectories,
  *,
  which: Annotated[str, OneOf('better', 'best', 'success')] = 'better',
  above: Number = 0.5,
):
  """Zeroes weights of turns that are not good attempts at the task (RISE).

  Where every turn is an attempt, with rewards r_k (arXiv 2407.18219):

    better   r_k > r_{k-1}, r_{-1} = 0
    best     r_k = max_j r_j
    success  r_k > above

  A trajectory without a weight is left out.

  Args:
    which: rule of a good attempt
    above: reward of a 'success', exclusive
  """

  def weighed(x: StoredTrajectory) -> StoredTrajectory:
    r = np.array([t.reward for t in x.turns])
    good = {
      'better': np.diff(r, prepend=0.0) > 0,
      'best': r == np.max(r, initial=-np.inf),
      'success': r > above,
    }[which]
    return edits.drop_turns(x, lambda k, turn: not good[k])

  out = [weighed(x) for x in xs]
  return [x for x in out if any(np.any(t.weight) for t in x.turns)]


def shared_turns(a: StoredTrajectory, b: StoredTrajectory) -> int:
  """Counts first turns of both that have equal contexts and messages."""
  count = 0
  for x, y in zip(a.turns, b.turns, strict=False):
    read = np.array_equal(x.context, y.context)
    if not (read and np.array_equal(x.message, y.message)):
      break
    count += 1
  return count
