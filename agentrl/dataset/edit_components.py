"""Edits that a source of c.mix names: lists of trajectories to such lists.

`edits` and `selections` say what each does to one trajectory; here they have
names and hyper-parameters. Trajectories that do not count were left out before
(`mixture.counted`). A turn has a term where its value is above `above`, such
as 'invalid': its message named no action.
"""

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from agentrl import registry
from agentrl.dataset import edits, selections, shared_prefixes
from agentrl.dataset.trajectory import StoredTrajectory, StoredTurn
from agentrl.domain import (
  Count,
  Flag,
  Name,
  Named,
  NotNegative,
  Number,
  OneOf,
  Positive,
  Tuple,
  Whole,
)
from agentrl.runtime import uniform
from agentrl.types import Span

Trajectories = Sequence[StoredTrajectory]
Names = Annotated[tuple[str, ...], Tuple(Name(), least=1, once=True)]
Spans = Annotated[
  tuple[str, ...],
  Tuple(OneOf(*(x.name.lower() for x in Span)), least=1, once=True),
]


@registry.register('edit')
def keep_solved(xs: Trajectories, *, above: Number = 0.5):
  """Keeps trajectories whose outcome is above 0.5, or another threshold.

  Args:
    above: threshold of the outcome, exclusive
  """
  return [x for x in xs if x.outcome > above]


@registry.register('edit')
def keep_unsolved(xs: Trajectories):
  """Keeps trajectories whose outcome is at most 0.5."""
  return [x for x in xs if not x.solved]


@registry.register('edit')
def keep_with_term(
  xs: Trajectories, *, term: Named = 'progress', above: Number = 0.0
):
  """Keeps trajectories with a turn that has the term.

  Args:
    term: what a turn has
    above: a turn has it if its value is above this
  """
  return [x for x in xs if any(_has(t, term, above) for t in x.turns)]


@registry.register('edit')
def keep_without_term(
  xs: Trajectories, *, term: Named = 'invalid', above: Number = 0.0
):
  """Keeps trajectories without a turn that has the term.

  Args:
    term: what a turn has
    above: a turn has it if its value is above this
  """
  return [x for x in xs if not any(_has(t, term, above) for t in x.turns)]


@registry.register('edit')
def shortest_solved_per_task(xs: Trajectories):
  """Keeps the solved trajectory of fewest tokens of each task (RoRecomp)."""
  return selections.shortest_solved_per_task(xs)


@registry.register('edit')
def in_pairs(xs: Trajectories, *, most: Count = 4, margin: NotNegative = 0.0):
  """Lists winners and losers of each task in turn, by outcome, for sft.pairs.

  Args:
    most: pairs of a task: the r-th best with the r-th worst, r < most
    margin: outcomes of a pair differ by more than that
  """
  return selections.in_pairs(xs, most=most, margin=margin)


@registry.register(
  'edit', needs=('term:{answer}', 'term:{malformed}', 'term:{process}')
)
def process_pairs(
  xs: Trajectories,
  *,
  answer: Named = 'f1',
  malformed: Named = 'invalid',
  process: Named = 'evidence_coverage',
  right: NotNegative = 0.5,
  least: NotNegative = 0.2,
  margin: NotNegative = 0.05,
  most: Count = 3,
):
  """Lists a good path of each task with worse ones, for sft.pairs (TeaRAG).

    winner  Σ answer > right,  Σ malformed = 0,  Σ process > least
    loser   Σ malformed > 0,  or Σ answer ≤ right,  or Σ process less by margin

  Sums are over turns (arXiv 2511.05385). The path of most process is paired
  with losers of each kind in turn. Both halves may be right, so that the stage
  that reads them needs curate 'as_listed'.

  Args:
    answer, malformed, process: terms of turns
    right: threshold of the answer
    least: threshold of the process; `evidence_coverage` of a perfect path is
      about 0.8 / hops by query and context
    margin: by how much more a right path must be worse; of that judge a
      needless step costs 0.8 / (hops (hops + 1))
    most: pairs of a task
  """

  def score(x: StoredTrajectory) -> selections.PathScore:
    names = answer, malformed, process
    return selections.PathScore(
      *(sum(t.terms.get(name, 0.0) for t in x.turns) for name in names)
    )

  return selections.process_pairs(
    xs, score, most=most, right=right, least=least, margin=margin
  )


@registry.register('edit', needs=('term:{term}',))
def judged_pairs(
  xs: Trajectories, *, term: Named = 'preferred', margin: NotNegative = 0.0
):
  """Lists the best and the worst of each group by a judge, for sft.pairs.

  By the sum of its term over turns, whatever the outcomes are, so that the
  stage that reads the pairs needs curate 'as_listed' (judge `tool_ranking`).

  Args:
    term: of the judge
    margin: scores of a pair differ by more than that
  """

  def score(x: StoredTrajectory) -> float:
    return sum(t.terms.get(term, 0.0) for t in x.turns)

  return selections.judged_pairs(xs, score, margin=margin)


@registry.register('edit')
def select(
  xs: Trajectories,
  *,
  key: Annotated[str, OneOf(*selections.KEYS)] = 'reward',
  n: Count = 1000,
  largest: Annotated[bool, Flag()] = True,
):
  """Keeps the n of largest or smallest length, entropy, novelty or reward.

  Args:
    key: what trajectories are ordered by
    n: how many are kept, at most
    largest: True: those of largest key; False: of smallest
  """
  return selections.select(xs, key=key, n=n, largest=largest)


@registry.register('edit')
def subset(
  xs: Trajectories, *, n: Count = 1000, seed: Annotated[int, Whole(0)] = 0
):
  """Keeps at most n, drawn at random from (seed, their number), in order.

  Args:
    n: how many are kept, at most
    seed: random seed of the choice
  """
  order = uniform.permutation(len(xs), seed, len(xs))
  return [xs[i] for i in np.sort(order[:n]).tolist()]


@registry.register('edit')
def cut_at_first(
  xs: Trajectories, *, term: Named = 'invalid', above: Number = 0.0
):
  """Turns up to the first that has the term, which is trained on as well.

  Args:
    term: what a turn has
    above: a turn has it if its value is above this
  """
  return [edits.cut_at_first(x, lambda k, t: _has(t, term, above)) for x in xs]


@registry.register('edit')
def drop_turns(
  xs: Trajectories, *, terms: Names = ('invalid',), above: Number = 0.0
):
  """Zeroes weights of messages of turns with one of the terms; contexts stay.

  Args:
    terms: what a turn has
    above: a turn has one if its value is above this
  """

  def out(k: int, turn: StoredTurn) -> bool:
    return any(_has(turn, term, above) for term in terms)

  return [edits.drop_turns(x, out) for x in xs]


@registry.register('edit')
def remove_turns(
  xs: Trajectories, *, term: Named = 'invalid', above: Number = 0.0
):
  """Takes out turns that have the term, with their answers (CLEANER).

  A trajectory that has no turn left is left out.

  Args:
    term: what a turn has
    above: a turn has it if its value is above this
  """
  out = [edits.remove_turns(x, lambda k, t: _has(t, term, above)) for x in xs]
  return [x for x in out if x.turns]


@registry.register('edit')
def mask_spans(xs: Trajectories, *, spans: Spans = ('prefix',)):
  """Zeroes weights of message tokens of the spans (MaskSearch and others).

  Args:
    spans: names of the spans (types.Span), in lower case
  """
  chosen = [Span[name.upper()] for name in spans]
  return [edits.mask(x, spans=chosen) for x in xs]


@registry.register('edit')
def only_observations(xs: Trajectories):
  """Puts weights on what the environment answered alone (Early Experience)."""
  return [edits.only_observations(x) for x in xs]


@registry.register('edit')
def share_prefixes(xs: Trajectories, *, power: NotNegative = 1.0):
  """Weighs turns that n trajectories begin with by 1 / n^power (KAT-Coder).

  1: a turn of a tree weighs once, 0: once for each of its leaves.

  Args:
    power: of n, by which a turn is divided
  """
  return shared_prefixes.share_prefixes(xs, power)


@registry.register('edit')
def weigh_by_reward(xs: Trajectories, *, temperature: Positive = 1.0):
  """Weighs messages by exp((r_k - max r) / temperature), in (0, 1].

  Reward-weighted regression on single turns (RISE, arXiv 2407.18219). max r is
  over all turns of all of the trajectories, so that no weight overflows; the
  loss divides by the sum of weights where it is a token mean.

  Args:
    temperature: in units of the reward; larger weighs more evenly
  """
  most = max((t.reward for x in xs for t in x.turns), default=0.0)

  def weight(k: int, turn: StoredTurn):
    return turn.weight * np.float32(np.exp((turn.reward - most) / temperature))

  return [edits.weighted(x, weight) for x in xs]


def _has(turn: StoredTurn, term: str, above: float) -> bool:
  return turn.terms.get(term, 0.0) > above
