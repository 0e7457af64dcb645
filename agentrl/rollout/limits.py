"""Limits of episodes in host environments, and the sizes that follow."""

import dataclasses

from agentrl.rollout.compaction import Compaction
from agentrl.rollout.edits import ContextEdits
from agentrl.rollout.record import Capacity


@dataclasses.dataclass(frozen=True)
class EpisodeLimits:
  """Limits of a trajectory.

  history: 'turn' rebuilds the context of each turn from the last `window`
  observations and the messages between them; 'full' only appends; 'compact'
  appends, and begins anew behind a summary when room runs out; 'edit' appends
  until a message drops turns.
  """

  turns: int  # K
  message: int  # M, tokens of a message with its end of turn
  observation: int  # tokens of an observation, with what stands around it
  opening: int  # tokens before the first observation, with those of notes
  context: int  # tokens of a conversation at most
  history: str = 'full'
  window: int = 1
  seconds: float = 60.0  # for one turn of an environment
  start: float = 600.0  # seconds for a reset, which may start a program
  patience: float = 3600.0  # seconds of a trajectory
  # Tokens of a row that holds all branches of a program or all segments of a
  # compacted or edited conversation; 0: there are none.
  row: int = 0
  compaction: Compaction | None = None  # of history 'compact'
  edits: ContextEdits | None = None  # of history 'edit'
  notes: int = 0  # tokens of the opening that a memory may fill
  recalled: tuple[str, ...] = ()  # info values of turns that read a memory

  @property
  def width(self) -> int:
    """C: the most tokens that are new to the model in a turn."""
    if self.compaction is not None:
      return max(self.compaction.restart, self.compaction.asking)
    if self.row:  # any turn may begin a branch
      return self.context
    if self.history == 'full':
      return self.opening + self.observation
    return min(self.context, self.opening + self.observation + self.past)

  @property
  def past(self) -> int:
    """The most tokens of earlier turns in a rebuilt context."""
    return (self.window - 1) * (self.observation + self.message)

  @property
  def capacity(self) -> Capacity:
    whole = self.history == 'full'
    row = self.context if whole else self.width + self.message
    row = self.row or row
    return Capacity(self.width, row, self.context)

  def room(self, task: int) -> int:
    """Returns the most tokens of a conversation, at a task of this index."""
    return self.compaction.length(task) if self.compaction else self.context
