"""What a rollout of host environments plays: families, tasks, conversations."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from agentrl.env import base
from agentrl.recall import observed
from agentrl.rollout import pack
from agentrl.rollout.compaction import SUMMARY
from agentrl.rollout.edits import TERMS
from agentrl.rollout.hinted import Guidance
from agentrl.rollout.limits import EpisodeLimits
from agentrl.rollout.record import Record
from agentrl.text.chat_format import ChatFormat


class HostEnvBundle(NamedTuple):
  """Environments, their tasks, and the format of conversations."""

  family: base.EnvFamily
  tasks: Sequence[Mapping[str, Any]]  # Attempts.task is an index into these
  talk: ChatFormat
  limits: EpisodeLimits
  system: str = ''  # message before the first observation; '': none
  action_prefix: str = ''  # environments see what follows the last one
  top_k: int = 0
  top_p: float = 1.0
  stop: Callable[[Sequence[int]], int] | None = None
  guidance: Guidance | None = None  # of attempts that are hinted
  reader: observed.Reader | None = None  # of a memory, by what is observed
  # (task, observations) -> the summary in a demonstration
  expert: Callable[[Mapping[str, Any], Sequence[str]], str] | None = None
  # Of several seats that play, S in their order: each one's `system`. (): one.
  systems: tuple[str, ...] = ()

  @property
  def seats(self) -> int:
    """S: trajectories of a match, side by side in a batch."""
    return max(len(self.systems), 1)

  @property
  def columns(self) -> tuple[str, ...]:
    """The names of the info values of turns."""
    limits, own = self.limits, self.family.columns
    own = (*own, *limits.recalled, *[SUMMARY] * bool(limits.compaction))
    return (*own, *TERMS) if limits.edits else own

  def system_of(self, attempt: int) -> str:
    """Returns the message before the first observation of an attempt."""
    return self.systems[attempt % self.seats] if self.systems else self.system

  def record(self, ended: Sequence[pack.Episode]) -> Record:
    """Packs trajectories into the record of these environments."""
    limits = self.limits
    made = pack.record(
      ended,
      k=limits.turns,
      c=limits.width,
      m=limits.message,
      columns=self.columns,
      branches=limits.row > 0,
      weightless=limits.compaction.weightless if limits.compaction else '',
    )
    return self.seated(made)

  def seated(self, record: Record) -> Record:
    """Says in a record whose seat and match each trajectory is."""
    if not self.systems:
      return record
    b = np.arange(len(record.status), dtype=np.int32)
    return record.replace(seat=b % self.seats, match=b // self.seats)
