"""Selections: functions from lists of stored trajectories to shorter lists.

Nothing of a trajectory is changed. Equal ones keep the order of the list.
"""

from collections.abc import Callable, Sequence

from agentrl.dataset.trajectory import StoredTrajectory

Score = Callable[[Sequence[StoredTrajectory]], list[float]]


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
  tasks: dict[int | str, list[StoredTrajectory]] = {}
  for x in xs:
    tasks.setdefault(x.task, []).append(x)
  out: list[StoredTrajectory] = []
  for members in tasks.values():
    ranked = sorted(members, key=lambda x: -x.outcome)
    for r in range(min(most, len(ranked) // 2)):
      win, lose = ranked[r], ranked[-1 - r]
      if win.outcome - lose.outcome > margin:
        out += [win, lose]
  return out
