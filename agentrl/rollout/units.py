"""Units: an attempt that writes a task, and a group of attempts at it.

  unit u    proposer ─► verified ─► solver 1 ... solver n    (or nobody)
  attempt   u (n+1)                 u (n+1) + 1 ...
  group     U                       u

U is the number of units: proposers are compared with each other, solvers with
those of their task. All proposers of a batch play before its solvers begin, so
that what was written depends on nothing but their keys. Both kinds are rows of
one batch, told apart by `turns.agent`; what each role has to know of the other
stands on last turns, as the terms `env.proposals.COLUMNS`.
"""

import collections
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from agentrl.env.proposals import HELD_OUT, Proposal, ProposesTasks
from agentrl.judge.overlap import bleu
from agentrl.rollout.pack import Episode, TurnData
from agentrl.text.clusters import clusters, shares
from agentrl.types import Agent, Attempts, Status

# (tasks, attempts at them) -> an episode of each
Session = Callable[[Sequence[Mapping[str, Any]], Attempts], list[Episode]]
_ENDED = (Status.SOLVED, Status.FAILED)  # by the environment


class Played(NamedTuple):
  """The attempts of a batch of units."""

  episodes: list[Episode]
  attempts: Attempts  # groups by role; limit 0 where there was no task
  agent: np.ndarray  # [B] i32  PROPOSER or SOLVER
  unit: np.ndarray  # [B] i32
  scored: np.ndarray  # [B] bool  False: nothing is known of what it wrote
  counts: dict[str, int]  # proposals by fault


def play(
  family: ProposesTasks,
  tasks: Sequence[Mapping[str, Any]],
  said: Callable[[TurnData], str],
  attempts: Attempts,
  size: int,
  session: Session,
) -> Played:
  """Plays proposers, verifies what they wrote, then plays its solvers.

  Args:
    tasks: those that `attempts.task` is an index into
    said: the text of a turn's message
    attempts: B, units of `size` one after another
    size: n + 1
    session: plays attempts, by their places in tasks of this batch
  """
  b = len(attempts.task)
  place = np.arange(b, dtype=np.int32)
  agent = np.where(place % size == 0, Agent.PROPOSER, Agent.SOLVER).astype(
    np.int32
  )
  unit = place // size
  group = np.where(agent == Agent.SOLVER, unit, b // size).astype(np.int32)
  attempts, limit = attempts.replace(group=group), np.asarray(attempts.limit)
  first = place[::size].tolist()
  seeds = [family.seed(tasks[int(attempts.task[i])]) for i in first]

  def played(tasks, own: np.ndarray) -> list[Episode]:
    at = attempts.replace(task=place, limit=np.where(own, limit, 0))
    return session(tasks, at)

  wrote = played([seeds[u] for u in unit], agent == Agent.PROPOSER)
  written = [
    _proposal(family, seed, wrote[i], said)
    for i, seed in zip(first, seeds, strict=True)
  ]
  there = np.array([x.task is not None for x in written])
  own = (agent == Agent.SOLVER) & there[unit]
  given = [written[u].task or {} for u in unit]
  solved = played(given, own)
  episodes = [solved[i] if own[i] else wrote[i] for i in place]
  known = _tell(family, written, episodes, said, size)
  return Played(
    episodes=episodes,
    attempts=attempts.replace(
      limit=np.where(own | (agent == Agent.PROPOSER), limit, 0)
    ),
    agent=agent,
    unit=unit,
    scored=(agent == Agent.SOLVER) | known[unit],
    counts=_counts(written),
  )


def _proposal(
  family: ProposesTasks,
  seed: Mapping[str, Any],
  episode: Episode,
  said: Callable[[TurnData], str],
) -> Proposal:
  """Reads a proposal; what a family makes of it costs this one alone."""
  turns = episode.turns if episode.status in _ENDED else ()
  texts = [said(x) for x in turns]
  try:
    return family.proposed(seed, texts, [x.observation for x in turns])
  except Exception as error:  # whatever the user's family raises
    text = 'A proposal could not be verified: %s'
    logging.log_first_n(logging.WARNING, text, 3, error)
    return Proposal('', fault='raised')


def _counts(written: Sequence[Proposal]) -> dict[str, int]:
  faults = collections.Counter(x.fault for x in written if x.fault)
  return {f'proposals/{name}': n for name, n in faults.items()}


def _tell(
  family: ProposesTasks,
  written: Sequence[Proposal],
  episodes: list[Episode],
  said: Callable[[TurnData], str],
  size: int,
) -> np.ndarray:
  """Writes the terms of every unit onto the last turns of its episodes.

  Returns: whether anything is known of a unit's proposal: [U] bool
  """
  share, known = alike([x.text for x in written]), np.ones(len(written), bool)
  for u, proposal in enumerate(written):
    at, task = u * size, proposal.task
    here = [
      i
      for i in range(at + 1, at + size)
      if task is not None and episodes[i].status != Status.ENV_ERROR
    ]
    terms, agrees = results(
      [_answer(family, task or {}, episodes[i], said) for i in here],
      [episodes[i].score for i in here],
      [sum(t.info.get('calls', 0) for t in episodes[i].turns) for i in here],
    )
    terms['is_task'] = float(task is not None)
    # What the test split has is no mistake of who wrote it.
    known[u] = bool(here) or proposal.fault not in ('', HELD_OUT, 'raised')
    episodes[at] = _with(episodes[at], terms | {'alike': float(share[u])})
    for i, x in zip(here, agrees, strict=True):
      episodes[i] = _with(episodes[i], terms | {'agrees': x})
  return known


def results(
  answers: Sequence[str], scores: Sequence[float], calls: Sequence[float]
) -> tuple[dict[str, float], list[float]]:
  """Computes what the n solvers of a task came to, and who agrees.

    solved = mean score,   agreement = max_a |{i : a_i = a}| / n

  over the answers that are not '', which n counts all the same. Of equally
  common answers the first one given is the one to agree with. Of no solver all
  is 0.
  """
  n = max(len(answers), 1)
  common = collections.Counter(x for x in answers if x).most_common(1)
  [(answer, count)] = common or [('', 0)]
  terms = {
    'solved': sum(scores) / n,
    'agreement': count / n,
    'solver_calls': sum(calls) / n,
  }
  return terms, [float(bool(x) and x == answer) for x in answers]


def alike(texts: Sequence[str]) -> np.ndarray:
  """Computes the share of the texts in the cluster of each: [n] f64.

    share_i = |C_i| / n,   C of average linkage, 1 - BLEU <= 1/2

  As in Agent0 (arXiv 2511.16043).
  """

  def likeness(a: str, b: str) -> float:
    return bleu(a.casefold().split(), b.casefold().split())

  return shares(clusters(texts, likeness, apart=0.5))


def _answer(
  family: ProposesTasks,
  task: Mapping[str, Any],
  episode: Episode,
  said: Callable[[TurnData], str],
) -> str:
  """Returns the answer that ended an episode; '': a limit did."""
  if episode.status not in _ENDED:
    return ''
  return family.answer(task, said(episode.turns[-1]))


def _with(episode: Episode, terms: Mapping[str, float]) -> Episode:
  """Adds info values to the last turn of an episode, if it has turns."""
  if not episode.turns:
    return episode
  *turns, last = episode.turns
  last = last._replace(info={**last.info, **terms})
  return episode._replace(turns=[*turns, last])
