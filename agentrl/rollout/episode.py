"""An episode under way in a rollout of host environments."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from agentrl.recall.base import NOTE_MATCH
from agentrl.recall.observed import Library, Recollection
from agentrl.rollout.edits import Standing
from agentrl.rollout.pack import TurnData
from agentrl.rollout.workers.pool import EnvWorker
from agentrl.text.chat_template import Conversation


@dataclasses.dataclass
class OpenEpisode:
  """An episode under way: what the state machine of one attempt holds."""

  attempt: int  # its index b
  worker: EnvWorker
  began: float
  talk: Conversation | None = None
  context: tuple[int, ...] = ()  # new tokens of the pending turn
  context_span: Sequence[int] = ()  # of each of them
  follows: bool = True  # all its turns were given by a prefix
  seen: list[str] = dataclasses.field(default_factory=list)
  asked: str = ''  # what the pending turn answers
  said: str = ''  # the newest message, as the environment hears it
  state: int = 0  # of the pending turn
  turns: list[TurnData] = dataclasses.field(default_factory=list)
  score: float = 0.0  # of the newest step
  standing: Standing | None = None  # its conversation, where turns are dropped
  edits: int = 0
  room: int = 0  # tokens of its conversation at most
  compactions: int = 0
  heard: tuple[str, str] | None = None  # text and role that await a summary
  branch: bool = False  # the pending turn begins a segment
  head: str = ''  # stands before the first observation of a segment
  note: str = ''  # of a memory, before the first observation of a context
  again: str = ''  # of a memory, before the pending observation
  recalled: Recollection | None = None  # what they are, by what chose them
  matched: float = 0.0  # the largest match of what was read
  gain: float = 0.0  # by how much the pending turn has raised it
  call: Any = None  # pending future of its worker
  until: float = 0.0  # deadline of the call
  allowed: float = 0.0  # seconds that the environment has for it

  def recall(self, library: Library | None, observation: str) -> None:
    """Chooses what is read before an observation; None: nothing is."""
    self.gain = 0.0
    if library and (library.again or not self.turns):
      self.recalled = library.read(observation, self.said)
      self.note = self.recalled.text
      self.again = self.note if library.again else ''
      self.gain = max(self.recalled.match - self.matched, 0.0)
      self.matched += self.gain

  @property
  def info(self) -> dict[str, float]:
    """Info values of the pending turn: what it reads."""
    if self.recalled is None:
      return {}
    return self.recalled.columns | {NOTE_MATCH: self.gain}
