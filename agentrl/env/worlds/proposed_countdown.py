"""Countdown whose instances the policy writes, then solves.

  pose: 2 numbers to 30
  <answer>24: 4 6</answer>

is a task if its numbers reach the target by an exhaustive search, as in
`countdown`: all of them are needed. It is then played as any other.

  24: 4 6
  <answer>4*6</answer>
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar

from agentrl.env import proposals, task_sampling, tool_env
from agentrl.env.base import HostTask
from agentrl.env.proposals import COLUMNS, HELD_OUT, SEED, Proposal, RoleEnv
from agentrl.env.worlds import countdown
from agentrl.text.tool_calls import format_of
from agentrl.tool.calculator import Calculator

_WRITTEN = re.compile(r'([1-9][0-9]{0,5}):((?: [1-9][0-9]{0,5}){2,5})')
POSE = (
  ' Asked to "pose", write a new task in the form "target: numbers" as your'
  ' answer.'
)


@dataclasses.dataclass(frozen=True)
class ProposedCountdown(countdown.Countdown):
  """Every second training task is a seed: its demonstration poses a task."""

  columns: ClassVar[tuple[str, ...]] = (*countdown.COLUMNS, *COLUMNS)

  @property
  def system(self) -> str:
    text = super().system
    return text and text + POSE

  def name(self) -> str:
    return task_sampling.name('proposed_countdown', self)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    """Yields tasks to solve; to train on, every second is one to pose."""
    made = super().tasks(split, count, seed)
    return proposals.with_seeds(made, split, self._posed)

  def env(self) -> RoleEnv:
    form = format_of(self.format)
    proposer = tool_env.ToolEnv(self._pose, form, self.columns)
    return RoleEnv(proposer, super().env())

  def seed(self, task: Mapping[str, Any]) -> dict[str, Any]:
    """Returns one seed for all: what is new comes of sampling."""
    del task
    return {SEED: f'pose: {self.numbers} numbers to {self.largest}'}

  def proposed(
    self,
    seed: Mapping[str, Any],
    messages: Sequence[str],
    observations: Sequence[str],
  ) -> Proposal:
    """Verifies an instance by all values that its numbers reach."""
    del seed, observations
    return self._verified(proposals.written(messages))

  def answer(self, task: Mapping[str, Any], message: str) -> str:
    """Returns the value of the expression; '': the rules do not allow it."""
    text = tool_env.final(message)
    if text is None:
      return ''
    value = countdown.worth(text, task['numbers'], self.operations)
    return '' if value is None else str(value)

  def _posed(self, made: HostTask) -> HostTask:
    task = made.task
    text = f'{task["target"]}: {" ".join(map(str, task["numbers"]))}'
    said = tool_env.answer_message(text)
    return HostTask(self.seed(task), (said,), made.key)

  def _pose(self, task: Mapping[str, Any], seed: int) -> tool_env.ToolTask:
    del seed  # nothing is random

    def judge(answer: str) -> tool_env.Grade:
      short = answer if len(answer) <= proposals.MOST else ''
      return tool_env.Grade(float(not self._verified(short).fault))

    return tool_env.ToolTask(task[SEED], [Calculator()], judge)

  def _verified(self, text: str) -> Proposal:
    written = _WRITTEN.fullmatch(text)
    if written is None:
      return Proposal(text, fault='format')
    text = written[0]
    target, numbers = int(written[1]), [int(x) for x in written[2].split()]
    if (
      len(numbers) != self.numbers
      or max(numbers) > self.largest
      or target > self.most
    ):
      return Proposal(text, fault='format')
    if Fraction(target) not in countdown.reachable(numbers, self.operations):
      return Proposal(text, fault='unanswerable')
    if task_sampling.split([target, sorted(numbers)]) == 'test':
      return Proposal(text, fault=HELD_OUT)
    return Proposal(text, {'target': target, 'numbers': numbers})
