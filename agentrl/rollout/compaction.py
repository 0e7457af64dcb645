"""Compaction: a conversation that is about to be too long begins anew.

  system, task, reply, ..., observation, reply     what comes next has no room
    → request, summary                             a turn of the policy
  system, task, summary, observation, reply, ...   another segment of the row

The summary is sampled and trained like any message, with a reward of 0, and the
environment is not stepped. What the policy wrote stands in the new segment by
its tokens, as it was sampled, so that every sampled token is trained once,
behind all that it was sampled behind. `own` is the method; the other arms tell
what it is worth:

  own       the summary is trained and is what the policy goes on from
  masked    it is written, and has weight 0
  shuffled  it is trained, and the policy goes on from its tokens in another
            order: a placebo of equal length and equal tokens, which depends on
            nothing but its own trajectory, as another one's summary would not
  none      it is not written: what came before is dropped

The placebo keeps which tokens a summary has, and takes what their order says.
Summaries that are trained: 2510.06727, 2607.05378.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from agentrl.rollout import keys
from agentrl.rollout.engine.engine import Completion
from agentrl.text.tokenizer import Tokenizer

SUMMARY = 'summary'  # the term that is 1 on turns that are summaries
DROPS = 'none'  # the arm that writes none


@dataclasses.dataclass(frozen=True)
class Compaction:
  """When conversations begin anew, and with what. Sizes are in tokens."""

  low: int  # a task's conversations have at most a length from low to high
  high: int
  tokens: int  # of a summary, with its end of turn
  most: int  # compactions of a trajectory
  request: str  # message that asks for a summary
  asking: int  # of the request, with what stands around it
  restart: int  # of a prompt that begins a segment, at most
  keep_task: bool = True  # a segment begins with the first observation
  arm: str = 'own'

  @property
  def writes(self) -> bool:
    """Whether there are summaries."""
    return self.arm != DROPS

  @property
  def context(self) -> int:
    """The most tokens of a conversation: with a summary at its end."""
    return self.high + self.writes * (self.asking + self.tokens)

  @property
  def row(self) -> int:
    """The most tokens of a trajectory, all of its segments."""
    return self.most * self.context + self.high

  @property
  def weightless(self) -> str:
    """The term of the messages that are not trained on; '': all are."""
    return SUMMARY if self.arm == 'masked' else ''

  def length(self, task: int) -> int:
    """Draws the length of a task's conversations from low to high, uniformly.

    It depends on the task alone, so that it is one for a group, and the same in
    other arms, seeds and iterations.

    Args:
      task: its index
    """
    rng = np.random.default_rng([task, keys.COMPACTION])
    return int(rng.integers(self.low, self.high, endpoint=True))

  def shown(
    self, ids: Sequence[int], key: np.ndarray, eot: int
  ) -> tuple[int, ...]:
    """Returns what the policy goes on from in place of its summary `ids`.

    A shuffled one differs from it wherever two of its tokens differ; its end of
    turn stays where it is.

    Args:
      key: [2] u32, of the summary
    """
    ids = tuple(ids)
    if self.arm != 'shuffled':
      return ids
    body = np.array([i for i in ids if i != eot], np.int64)
    rng = np.random.default_rng([*map(int, key), keys.COMPACTION])
    made = rng.permutation(body)
    while len(set(body.tolist())) > 1 and np.array_equal(made, body):
      made = rng.permutation(body)
    return *made.tolist(), *ids[len(body) :]


def demonstrated(
  tokenizer: Tokenizer, text: str, most: int, sequence: int
) -> Completion:
  """Writes a demonstrated summary as if the policy had.

  Raises:
    ValueError: it has more than `most` tokens.
  """
  ids = [*tokenizer.encode(text), tokenizer.eot]
  if len(ids) > most:
    raise ValueError(
      f'compaction.tokens must be >= {len(ids)}, the tokens of a demonstrated'
      f' summary, got {most}'
    )
  zero = [0.0] * len(ids)
  return Completion(sequence, ids, zero, zero, [0] * len(ids))
