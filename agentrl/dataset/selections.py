"""Selections: functions from lists of stored trajectories to shorter lists.

Nothing of a trajectory is changed. Equal ones keep the order of the list.
"""

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import NamedTuple

from agentrl.dataset.trajectory import StoredTrajectory

Score = Callable[[Sequence[StoredTrajectory]], list[float]]
_ROUNDING = 1e-6  # of terms, which are stored as float32


def length(xs: Sequence[StoredTrajectory]) -> list[float]:
  """Counts the tokens of all messages."""
  return [float(x.tokens) for x in xs]


def reward(xs: Sequence[StoredTrajectory]) -> list[float]:
  """Sums the rewards of all turns."""
  return [float(x.reward) for x in xs]


def entropy(xs: Sequence[StoredTrajectory]) -> list[float]:
  """Averages the entropy of message tokens, nats; 0 without one."""
  return [sum(turn.entropy for turn in x.turns) / max(x.tokens, 1) for x in xs]


def novelty(xs: Sequence[StoredTrajectory]) -> list[float]:
  """Counts distinct states that no trajectory before it in the list has."""
  seen: set[int] = set()
  out = []
  for x in xs:
    new = {turn.state for turn in x.turns} - seen
    out.append(float(len(new)))
    seen |= new
  return out


KEYS: dict[str, Score] = {
  'length': length,
  'entropy': entropy,
  'novelty': novelty,
  'reward': reward,
}


def select(
  xs: Sequence[StoredTrajectory],
  *,
  key: str | Callable[[StoredTrajectory], float],
  n: int,
  largest: bool = True,
) -> list[StoredTrajectory]:
  """Returns the n trajectories of largest or smallest key, best first.

  Fewer if there are; of equal ones the first.

  Args:
    key: one of KEYS, or a function of one trajectory
  Raises:
    ValueError: the key is unknown, or n is negative.
  """
  if isinstance(key, str) and key not in KEYS:
    raise ValueError(
      f'key {key!r} is unknown; use one of {sorted(KEYS)}, or a function of a'
      ' trajectory'
    )
  if n < 0:
    raise ValueError(f'n={n} is negative; ask for 0 or more')
  scores = KEYS[key](xs) if isinstance(key, str) else [*map(key, xs)]
  sign = -1 if largest else 1
  order = sorted(range(len(xs)), key=lambda i: sign * scores[i])
  return [xs[i] for i in order[:n]]


def shortest_solved_per_task(
  xs: Sequence[StoredTrajectory],
) -> list[StoredTrajectory]:
  """Returns the solved trajectory with fewest message tokens of each task.

  In the order of the list; tasks that none solved are left out (the
  short-and-correct half of RoRecomp).
  """
  best: dict[int | str, int] = {}
  for i, x in enumerate(xs):
    shorter = x.task not in best or x.tokens < xs[best[x.task]].tokens
    if x.solved and shorter:
      best[x.task] = i
  return [xs[i] for i in sorted(best.values())]


def in_pairs(
  xs: Sequence[StoredTrajectory], *, most: int = 1, margin: float = 0.0
) -> list[StoredTrajectory]:
  """Lists winners and losers of each task in turn: win, lose, win, lose, ...

  The r-th best of a task with its r-th worst by outcome, r < most and at most
  half of them; of equal outcomes the first in the list is better. A pair that
  does not differ by more than margin is left out.
  """
  out: list[StoredTrajectory] = []
  for members in _by_task(xs):
    ranked = sorted(members, key=lambda x: -x.outcome)
    for r in range(min(most, len(ranked) // 2)):
      win, lose = ranked[r], ranked[-1 - r]
      if win.outcome - lose.outcome > margin:
        out += [win, lose]
  return out


def judged_pairs(
  xs: Sequence[StoredTrajectory],
  score: Callable[[StoredTrajectory], float],
  *,
  margin: float = 0.0,
) -> list[StoredTrajectory]:
  """Lists the best and the worst of each group by a score, in turn.

  A group whose scores differ by no more than margin, to 1e-6, makes no pair. Of
  equal scores the first in the list stands for all.
  """
  groups: dict[tuple[int, int], list[StoredTrajectory]] = {}
  for x in xs:
    groups.setdefault((x.step, x.group), []).append(x)
  out: list[StoredTrajectory] = []
  for members in groups.values():
    win, lose = max(members, key=score), min(members, key=score)
    if score(win) - score(lose) - margin > _ROUNDING:
      out += [win, lose]
  return out


class PathScore(NamedTuple):
  """What a path through a task is preferred by."""

  answer: float  # how right it is
  malformed: float  # messages that were not understood
  process: float  # what it covers, for each of its steps


def process_pairs(
  xs: Sequence[StoredTrajectory],
  score: Callable[[StoredTrajectory], PathScore],
  *,
  most: int,
  right: float,
  least: float,
  margin: float,
) -> list[StoredTrajectory]:
  """Lists a good path of each task and what it is preferred to, in turn.

  The winner has nothing malformed, answer > right and process > least; of
  several the one of most process, then of the best answer, then the first.
  Losers are malformed, or else wrong (answer ≤ right), or else weaker (process
  lower by more than margin). They are taken weaker, wrong, malformed in turn,
  of each kind the least process first, `most` in all. A task without a winner
  or a loser makes no pair. Comparisons are strict, to 1e-6.
  """
  out: list[StoredTrajectory] = []
  for members in _by_task(xs):
    paths = sorted(((score(x), x) for x in members), key=lambda p: p[0].process)
    good = [(s, x) for s, x in paths if not s.malformed and _above(s, right)]
    winners = [(s, x) for s, x in good if s.process - least > _ROUNDING]
    if not winners:
      continue
    best, win = max(winners, key=lambda p: (p[0].process, p[0].answer))
    bar = best.process - margin - _ROUNDING
    weaker = [x for s, x in good if s.process < bar]
    wrong = [x for s, x in paths if not s.malformed and not _above(s, right)]
    malformed = [x for s, x in paths if s.malformed]
    kinds = zip_longest(weaker, wrong, malformed)
    losers = [x for some in kinds for x in some if x is not None]
    for lose in losers[:most]:
      out += [win, lose]
  return out


def _above(s: PathScore, right: float) -> bool:
  return s.answer - right > _ROUNDING


def _by_task(
  xs: Sequence[StoredTrajectory],
) -> list[list[StoredTrajectory]]:
  """Groups trajectories by task, tasks in the order of their first ones."""
  tasks: dict[int | str, list[StoredTrajectory]] = {}
  for x in xs:
    tasks.setdefault(x.task, []).append(x)
  return [*tasks.values()]
