"""Family whose tasks are played by programs that call the policy over HTTP."""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from agentrl import domain
from agentrl.env.base import HostEnv
from agentrl.text import spans as spans_lib
from agentrl.text.spans import Interval
from agentrl.text.tool_calls import FormatName, format_of


@dataclasses.dataclass(frozen=True)
class ProgramFamily:
  """What those families share; each says how an episode is started."""

  branches: domain.Count = 2  # conversations that branches may fill
  calls: FormatName = 'hermes'  # format of tool calls in messages

  system: ClassVar[str] = ''
  worker: ClassVar[str] = 'thread'

  @property
  def columns(self) -> tuple[str, ...]:
    """Of a turn.

    branch: it begins one. foreign: messages that it read as the agent's and
    that were not sampled as they are.
    """
    return ('branch', 'foreign')

  def env(self) -> HostEnv:
    raise ValueError(
      'these tasks are played by their program and have no environment of their'
      ' own; train or evaluate, or play the world that the program plays'
    )

  def spans(self, message: str) -> Sequence[Interval]:
    calls = format_of(self.calls).locate(message, [])
    return spans_lib.mark(message, calls)
