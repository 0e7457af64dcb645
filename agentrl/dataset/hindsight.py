"""Pairs for a reward model, written in hindsight from exploration.

An instruction is written for what a trajectory did (env/goals.py) and stands in
its first context in place of the one that the agent had read. The trajectory
that fulfils it wins against one that does not:

  prefix   an attempt of its group that shares its first turns, and went on
           differently: as many of them as any such attempt does
  other    an attempt at another task

Nothing of the environment's rewards, outcomes or terms is read or kept; of the
status only whether the agent has ended the attempt itself.
"""

import collections
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np

from agentrl import registry
from agentrl.dataset.task_edits import shared_turns
from agentrl.dataset.trajectory import (
  StoredTrajectory,
  StoredTurn,
  make_turn,
  status_of,
)
from agentrl.domain import Count, OneOf, Tuple, Whole
from agentrl.env import goals
from agentrl.env.splits import state_of
from agentrl.text.tokenizer import Tokenizer
from agentrl.types import Status

KINDS = ('prefix', 'other')
TRIES = 8  # attempts at other tasks that are looked at for a loser
ENDED = (Status.SOLVED, Status.FAILED)  # by the agent, not by a limit

Trajectories = Sequence[StoredTrajectory]


def fits(spec: registry.MethodSpec, config: Any) -> str:
  """Returns '' if goals stand in rows, and groups have several attempts."""
  rollout = config.rollout
  if rollout.history != 'full':
    return (
      "rollout.history must be 'full' for edit 'hindsight_pairs', whose goals"
      f' stand in the first context, got {rollout.history!r}'
    )
  kinds = [
    kind
    for _, hp in registry.settings_of(spec, 'edit', 'hindsight_pairs')
    for kind in hp['losers']
  ]
  if 'prefix' in kinds and rollout.group_size < 2:
    return (
      "rollout.group_size must be >= 2 for losers 'prefix' of edit"
      " 'hindsight_pairs', attempts of one group, got"
      f' {rollout.group_size}; or leave that kind out'
    )
  return ''


@registry.register('edit', needs=('tokenizer', goals.STATED), check=fits)
def hindsight_pairs(
  xs: Trajectories,
  *,
  words: Tokenizer,
  family: goals.StatesGoals,
  losers: Annotated[
    tuple[str, ...], Tuple(OneOf(*KINDS), least=1, once=True)
  ] = KINDS,
  most: Count = 2,
  seed: Annotated[int, Whole(0)] = 0,
):
  """Lists who fulfils a goal written in hindsight and who does not (ARMAP).

  arXiv 2502.12130. Winners and losers come in turn, for sft.pairs, of outcome 1
  and 0; both read the winner's goal. A kind of loser that there is none of is
  left out. Rewards, terms and log-probs are not kept: the first two are of
  another goal, and the tokens were sampled behind another text.

  Args:
    words: tokenizer of the run
    family: of its environments, which writes goals
    losers: kinds of them, a pair each: 'prefix', 'other'
    most: goals of a trajectory, different ones
    seed: of the goals and of the choice among other tasks
  Raises:
    ValueError: a context cannot be encoded again.
  """
  explored = Explored(xs, words, family)
  out: list[StoredTrajectory] = []
  for i in range(len(xs)):
    for n, goal in enumerate(explored.goals(i, most, seed)):
      rng = np.random.default_rng([seed, i, n])
      found = {
        'prefix': explored.longest_shared(i, goal),
        'other': explored.elsewhere(i, goal, rng),
      }
      for j in (found[kind] for kind in losers):
        if j is not None:
          group = len(out) // 2
          out.append(explored.told(i, goal, 1.0, group))
          out.append(explored.told(j, goal, 0.0, group))
  return out


class Explored:
  """Trajectories by place, and what they have read."""

  def __init__(
    self, xs: Trajectories, words: Tokenizer, family: goals.StatesGoals
  ):
    self._xs, self._words, self._family = xs, words, family
    self._read = [observations(x, words) for x in xs]
    self._group = collections.defaultdict[tuple[int, int], list[int]](list)
    for i, x in enumerate(xs):
      self._group[x.step, x.group].append(i)

  def goals(self, i: int, most: int, seed: int) -> list[str]:
    """Writes up to `most` different goals that a trajectory fulfils.

    It writes none for one that a limit ended: its last answer was not read.
    """
    if self._xs[i].status not in ENDED:
      return []
    rng = np.random.default_rng([seed, i])
    made = [self._family.goal(self._read[i], rng) for _ in range(most)]
    return [x for x in dict.fromkeys(made) if x and self.fulfils(i, x)]

  def fulfils(self, i: int, goal: str) -> bool:
    ended = self._xs[i].status in ENDED
    return ended and self._family.fulfils(self._read[i], goal)

  def longest_shared(self, i: int, goal: str) -> int | None:
    """Finds who of a group misses a goal behind most turns of a trajectory.

    Of equal ones the first; None where nobody shares a turn with it.
    """
    x, best, most = self._xs[i], None, 0
    for j in self._group[x.step, x.group]:
      shared = shared_turns(x, self._xs[j])
      if shared > most and not self.fulfils(j, goal):
        best, most = j, shared
    return best

  def elsewhere(
    self, i: int, goal: str, rng: np.random.Generator
  ) -> int | None:
    """Draws an attempt at another task that misses a goal; None after TRIES."""
    for j in rng.integers(len(self._xs), size=TRIES).tolist():
      other = self._xs[j].turns and self._xs[j].task != self._xs[i].task
      if other and not self.fulfils(j, goal):
        return j
    return None

  def told(
    self, i: int, goal: str, outcome: float, group: int
  ) -> StoredTrajectory:
    """Returns a trajectory that reads a goal, and nothing of its own rewards.

    Raises:
      ValueError: its first context cannot be encoded again.
    """
    x = self._xs[i]
    turns = [_bare(turn) for turn in x.turns]
    turns[0] = self._restated(turns[0], goal)
    return x._replace(
      turns=tuple(turns),
      task=goal,
      group=group,
      outcome=outcome,
      status=status_of(outcome),
      source='edited',
    )

  def _restated(self, turn: StoredTurn, goal: str) -> StoredTurn:
    """Puts the goal into a first context, whose tokens are made anew."""
    text = self._words.decode(turn.context.tolist())
    if self._words.encode(text, specials=True) != turn.context.tolist():
      raise ValueError(
        "rollout.chat_format must be 'bare' for edit 'hindsight_pairs' here,"
        ' whose goals are encoded in the first context, got one that is encoded'
        f' differently: {text!r:.60}'
      )
    text = self._family.restated(text, goal)
    ids = self._words.encode(text, specials=True)
    (span,) = np.unique(turn.context_span)  # it is all the environment's
    return turn._replace(
      context=np.array(ids, np.int32),
      context_span=np.full(len(ids), span, np.int8),
      context_weight=np.zeros(len(ids), np.float32),
      state=state_of(text),
    )


def observations(x: StoredTrajectory, words: Tokenizer) -> list[str]:
  """Returns the texts of what was new to the model in each turn."""
  return [words.decode(turn.context.tolist()) for turn in x.turns]


def _bare(turn: StoredTurn) -> StoredTurn:
  """Returns a turn without rewards, terms and log-probs."""
  return make_turn(
    turn.context,
    turn.message,
    context_span=turn.context_span,
    span=turn.span,
    action=turn.action,
    state=turn.state,
  )
