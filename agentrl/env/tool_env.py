"""Base of environments with tools: calls, and a final answer.

A message calls tools, in the format of the family, or ends the task with
`<answer>...</answer>`. One that calls is no answer yet, whatever it also holds:
the agent has not seen the results. One that does neither, or a call that
cannot be read, is invalid and answered with the format to use.
"""

import collections
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from agentrl.env.base import Step
from agentrl.text.spans import ANSWER
from agentrl.text.tool_calls import format_of
from agentrl.text.tool_calls.base import (
  Call,
  Described,
  Format,
  Malformed,
  ToolDescription,  # noqa: F401  families name it from here
  spoken,
)
from agentrl.tool import base

# Of a turn: calls made, those that went wrong, and those by kind; answers
# written, of which only one that stands alone ends the task.
_FAULTS = tuple(f'fault_{kind}' for kind in base.KINDS)
COLUMNS = ('calls', 'faults', *_FAULTS, 'answers')
LOST = 'Call a tool, or end with <answer>...</answer>.'
CALLS = 16  # of a message that are answered
_SECONDS = 60.0  # for a call; tools have limits of their own


class Grade(NamedTuple):
  """Score of a final answer."""

  score: float  # 1 right, 0 wrong; also the reward
  info: Mapping[str, float] = {}


class ToolTask(NamedTuple):
  """A task, ready to be played."""

  text: str  # the first observation
  tools: Sequence[base.Tool]
  judge: Callable[[str], Grade]  # of the text between the answer's tags
  # Facts of a turn, by column; the answers to its calls, () for any other turn.
  observe: Callable[[Sequence[base.Answer]], Mapping[str, float]] = lambda x: {}


class ToolEnv:
  """The `HostEnv` of tasks with tools; see `HostEnv`."""

  def __init__(
    self,
    begin: Callable[[Mapping[str, Any], int], ToolTask],
    format: Format,
    columns: Sequence[str] = COLUMNS,
    close: Callable[[], None] = lambda: None,
  ):
    """Stores the parts of a task.

    Args:
      begin: (task, seed) -> the task; what it held of the last one goes.
      format: of the calls.
      columns: of the family; what nothing is said of is 0.
      close: ends what `begin` holds.
    """
    self._begin, self._format, self._close = begin, format, close
    self._nothing = dict.fromkeys(columns, 0.0)

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    self.go_on(self._begin(task, seed))
    return self._task.text

  def go_on(self, task: ToolTask) -> None:
    """Goes on in a task that may be under way."""
    self._task = task
    base.named(task.tools)  # a faulty one is refused here

  def step(self, message: str) -> Step:
    calls = self._format.parse(message, self._task.tools)
    written = len(answers(message))
    if calls:
      return self._call(calls, written)
    answer, info = final(message), self._facts({'answers': written}, ())
    if answer is None:
      return Step(LOST, invalid=True, info=info)
    judged = self._task.judge(answer)
    info |= judged.info
    return Step('', judged.score, True, judged.score, info=info)

  def close(self) -> None:
    self._close()

  def _facts(
    self, counts: Mapping[str, int], results: Sequence[base.Answer]
  ) -> dict[str, float]:
    facts = {**counts, **self._task.observe(results)}
    return {x: float(facts.get(x, 0)) for x in self._nothing}

  def _call(self, calls: list[Call | Malformed], written: int) -> Step:
    calls = calls[:CALLS] + [_TOO_MANY] * (len(calls) > CALLS)
    results = base.run(calls, self._task.tools, seconds=_SECONDS)
    faults = [x.fault for x in results if x.fault]
    counted = collections.Counter(f'fault_{kind}' for kind in faults)
    counted |= {'calls': len(results), 'faults': len(faults)}
    counted['answers'] = written
    return Step(
      self._format.answer([(x.name, x.text) for x in results]),
      invalid='malformed' in faults,
      info=self._facts(counted, results),
    )


_TOO_MANY = Malformed(
  f'A message has at most {CALLS} calls; those after them were not made.'
)


def final(message: str) -> str | None:
  """Returns the text of a message's one answer; None if not just one.

  Nothing that is only thought is an answer.
  """
  values = answers(message)
  return values[0].strip() if len(values) == 1 else None


def answers(message: str) -> list[str]:
  """Returns the text of each answer of a message."""
  return ANSWER.findall(spoken(message))


def answer_message(answer: str) -> str:
  """Returns the message that ends a task."""
  return f'<answer>{answer}</answer>'


def describe_tools(rules: str, tools: Sequence[Described], format: str) -> str:
  """Writes a system text: the rules, the tools, and how to end.

  Raises:
    ValueError: a tool has a faulty schema, or no place in the format.
  """
  for tool in tools:
    base.check_schema(tool.name, tool.schema)
  taught = format_of(format).teach(tools)
  return f'{rules}\n{taught}\nEnd with {answer_message("...")}.'
