"""Tool protocol, and parallel execution of the calls of one turn."""

import collections
import concurrent.futures
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from agentrl.runtime import threads
from agentrl.text.tool_calls.base import Call, Malformed
from agentrl.tool import schema as schema_lib
from agentrl.tool.schema_keywords import whole

# Why a call was not answered as asked: by the format, by `run`, by a tool.
KINDS = (
  'malformed', 'unknown', 'arguments', 'error', 'time', 'memory', 'output',
  'processes', 'files', 'network', 'crash',
)  # fmt: skip
_MOST_HANGING = 16  # calls of one tool; no more of it are made meanwhile


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
  pool: concurrent.futures.Executor | None = None,
  *,
  seconds: float = 60.0,
) -> list[Answer]:
  """Answers the calls of one turn, in their order, at the same time.

  Args:
    calls: as a format has read them.
    tools: what can be called.
    pool: its threads are the most calls that are made at a time, of all that
      share it; None: all calls of the turn are.
    seconds: to wait for a call from when it begins. A tool that takes longer
      is answered for and its thread is left behind: it cannot be stopped, so
      tools keep limits of their own and this one is the last resort.

  Raises:
    ValueError: two tools of one name, or a faulty schema.
  """
  by_name = named(tools)
  if pool is None:
    begun = [_begin(call, by_name) for call in calls]
    return [_wait(x, seconds) for x in begun]
  futures = [
    pool.submit(lambda x: _wait(_begin(x, by_name), seconds), call)
    for call in calls
  ]
  return [x.result() for x in futures]


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


class _Begun(NamedTuple):
  """A call under way."""

  call: Call | Malformed
  kind: tuple[type, str]  # of tool
  future: concurrent.futures.Future[Answer]
  at: float


class _Hanging:
  """Calls that nobody waits for any more, by kind of tool."""

  def __init__(self) -> None:
    self._lock = threading.Lock()
    self._futures: dict[tuple[type, str], list[concurrent.futures.Future]] = {}

  def add(self, begun: _Begun) -> None:
    with self._lock:
      self._futures.setdefault(begun.kind, []).append(begun.future)

  def count(self, kind: tuple[type, str]) -> int:
    with self._lock:
      left = [x for x in self._futures.pop(kind, ()) if not x.done()]
      if left:
        self._futures[kind] = left
      return len(left)


_HANGING = _Hanging()


def _begin(call: Call | Malformed, tools: dict[str, Tool]) -> _Begun:
  """Begins a call in a thread of its own, unless too many like it hang."""
  tool = tools.get(call.name) if isinstance(call, Call) else None
  kind = type(tool), tool.name if tool else ''
  at, future = time.monotonic(), None
  if tool is None:
    answer = _answer(call, tools)
  elif (hanging := _HANGING.count(kind)) >= _MOST_HANGING:
    text = f'was not called: {hanging} earlier calls of it still hang.'
    answer = Answer(tool.name, f'{tool.name} {text}', 'time', 0.0)
  else:
    try:
      future = threads.start(lambda: _answer(call, tools))
    except RuntimeError as error:
      text = f'was not called: {error}.'
      answer = Answer(tool.name, f'{tool.name} {text}', 'error', 0.0)
  if future is None:
    future = concurrent.futures.Future()
    future.set_result(answer)
  return _Begun(call, kind, future, at)


def _wait(begun: _Begun, seconds: float) -> Answer:
  """Returns the answer, in so many seconds after the call began."""
  try:
    left = begun.at + seconds - time.monotonic()
    return begun.future.result(max(0.0, left))
  except concurrent.futures.TimeoutError:
    _HANGING.add(begun)
    name = begun.call.name if isinstance(begun.call, Call) else ''
    return Answer(name, f'{name} did not answer in time.', 'time', 0.0)


def _answer(call: Call | Malformed, tools: dict[str, Tool]) -> Answer:
  if isinstance(call, Malformed):
    return Answer('', call.sentence, 'malformed', 0.0)
  start = time.monotonic()
  try:
    text, kind = _call(call, tools), ''
  except ToolError as fault:
    text, kind = fault.text, fault.kind
  except BaseException as error:  # a tool is not ours: nothing may get out
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
