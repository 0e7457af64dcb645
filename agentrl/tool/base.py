"""Tool protocol, and parallel execution of the calls of one turn."""

import collections
import concurrent.futures
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from agentrl.text.tool_calls.base import Call, Malformed
from agentrl.tool import schema as schema_lib
from agentrl.tool.schema_keywords import whole

# Why a call was not answered as asked: by the format, by `run`, by a tool.
KINDS = (
  'malformed', 'unknown', 'arguments', 'error', 'time', 'memory', 'output',
  'processes', 'files', 'network', 'crash',
)  # fmt: skip


class Tool(Protocol):
  """Something an agent can call; it must bear calls from several threads."""

  name: str
  description: str  # for the model: what it does, and when to call it
  schema: dict[str, Any]  # JSON Schema of an object: the arguments by name

  def __call__(self, *_: Any, **args: Any) -> str:
    """The answer; called with arguments by name.

    Raises:
      ToolError: no answer; its kind is counted, its text sent to the agent.
    """


class ToolError(Exception):
  """A call that went wrong; it costs its call, never the run."""

  def __init__(self, kind: str, text: str):
    """kind: one of `KINDS`; text: shown to the agent instead of an answer."""
    if kind not in KINDS:
      raise ValueError(f'fault kind {kind!r} is unknown; use one of {KINDS}')
    super().__init__(text)
    self.kind = kind
    self.text = text


class Answer(NamedTuple):
  """Result of one call, as the agent gets it."""

  name: str  # of the tool; '' where the call could not be read
  text: str
  fault: str  # one of KINDS; '' if there was none
  seconds: float  # it took


def run(
  calls: Sequence[Call | Malformed],
  tools: Iterable[Tool],
  pool: concurrent.futures.Executor,
  *,
  seconds: float = 60.0,
) -> list[Answer]:
  """Answers the calls of one turn, in their order, at the same time.

  Args:
    calls: as a format has read them.
    tools: what can be called.
    pool: threads to call in; shared by all trajectories.
    seconds: to wait for all of them. A tool that takes longer is answered for
      and left behind: a thread cannot be stopped, so tools keep limits of
      their own and this one is the last resort.

  Raises:
    ValueError: two tools of one name, or a faulty schema.
  """
  by_name = named(tools)
  end = time.monotonic() + seconds
  futures = [pool.submit(_answer, call, by_name) for call in calls]
  return [
    _wait(call, future, end)
    for call, future in zip(calls, futures, strict=True)
  ]


def named(tools: Iterable[Tool]) -> dict[str, Tool]:
  """Tools by name.

  Raises:
    ValueError: two have the same, or a schema is faulty.
  """
  out = {}
  for tool in tools:
    if tool.name in out:
      raise ValueError(f'two tools are called {tool.name!r}; rename one')
    check_schema(tool.name, tool.schema)
    out[tool.name] = tool
  return out


def check_schema(name: str, schema: Mapping[str, Any]) -> None:
  """Raises ValueError with the name of the tool if its schema is faulty."""
  try:
    schema_lib.check(schema)
  except ValueError as error:
    raise ValueError(f'tool {name!r} cannot be used: {error}') from error


def count(answers: Iterable[Answer]) -> dict[str, int]:
  """Counts calls, and those that ended in each kind of fault."""
  faults = collections.Counter(answer.fault for answer in answers)
  return {'calls': faults.total()} | {kind: faults[kind] for kind in KINDS}


def _wait(call, future: concurrent.futures.Future, end: float) -> Answer:
  try:
    return future.result(max(0.0, end - time.monotonic()))
  except concurrent.futures.TimeoutError:
    future.cancel()
    name = call.name if isinstance(call, Call) else ''
    return Answer(name, f'{name} did not answer in time.', 'time', 0.0)


def _answer(call: Call | Malformed, tools: dict[str, Tool]) -> Answer:
  if isinstance(call, Malformed):
    return Answer('', call.sentence, 'malformed', 0.0)
  start = time.monotonic()
  try:
    text, kind = _call(call, tools), ''
  except ToolError as fault:
    text, kind = fault.text, fault.kind
  except Exception as error:  # a tool is not ours: nothing of it may get out
    why = f'{type(error).__name__}: {error}'[:500]
    text, kind = f'{call.name} failed: {why}', 'error'
  return Answer(call.name, text, kind, time.monotonic() - start)


def _call(call: Call, tools: dict[str, Tool]) -> str:
  if call.name not in tools:
    raise ToolError(
      'unknown',
      f'There is no tool {call.name!r}; there are {", ".join(sorted(tools))}.',
    )
  tool = tools[call.name]
  if complaint := schema_lib.mismatch(call.args, tool.schema):
    raise ToolError('arguments', f'{call.name} was not called: {complaint}')
  text = tool(**whole(call.args))
  if not isinstance(text, str):
    raise TypeError(f'it answered with {type(text).__name__}, not with text')
  return text


def shorten(text: str, most: int) -> str:
  """The text, or its first `most` characters and that there were more."""
  if len(text) <= most:
    return text
  return f'{text[:most]}\n(cut: {len(text) - most} characters more)'
