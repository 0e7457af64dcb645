"""What host rollouts ask of anything that generates text."""

from collections.abc import Sequence
from typing import Protocol

from agentrl.rollout.engine.engine import (
  Completion,
  GenerationFault,
  SamplingParams,
)


class Generator(Protocol):
  """Text generator, one request of a sequence at a time, such as Engine."""

  @property
  def busy(self) -> bool:
    """True while a round has work to do."""

  def submit(
    self, sequence: int, context: Sequence[int], how: SamplingParams
  ) -> None:
    """Requests the next message of a sequence, after all tokens before it."""

  def dispatch(self) -> None:
    """Begins a round; does not wait for it."""

  def collect(self) -> Sequence[Completion | GenerationFault]:
    """Waits for the round that was begun; returns what it finished."""

  def cancel(self, sequence: int) -> None:
    """Ends a sequence, whether it has a request or not."""
