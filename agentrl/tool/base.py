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
  """Tool of an agent; it must be safe to call from several threads."""

  name: str
  description: str  # for the model: what it does, and when to call it
  schema: dict[str, Any]  # JSON Schema of an object: the arguments by name

  def __call__(self, *_: Any, **args: Any) -> str:
    """Answers a call with arguments by name.

    Raises:
      ToolError: its kind is counted and its text sent to the agent.
    """


class ToolError(Exception):
  """Failure of a call; it costs the call, never the run."""

  def __init__(self, kind: str, text: str):
    """Takes one of `KINDS`, and a text for the agent instead of an answer."""
    if kind not in KINDS:
      raise ValueError(f'fault kind must be one of {KINDS}, got {kind!r}')
    super().__init__(text)
    self.kind = kind
    self.text = text


class Answer(NamedTuple):
  """Result of one call, as shown to the agent."""

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
  """Answers the calls of one turn concurrently, in order.

  Args:
    calls: as parsed by a format.
    tools: available ones.
    pool: shared threads that limit concurrent calls; None: run all calls of the
      turn at once.
    seconds: timeout of a call, from its start. The thread of a late call is
      abandoned, since it cannot be stopped: a last resort, tools have limits of
      their own.

  Raises:
    ValueError: duplicate tool names, or an invalid schema.
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
  """Indexes tools by name.

  Raises:
    ValueError: duplicate names, or an invalid schema.
  """
  out = {}
  for tool in tools:
    if tool.name in out:
      raise ValueError(f'tool names must be distinct, got {tool.name!r} twice')
    check_schema(tool.name, tool.schema)
    out[tool.name] = tool
  return out


def check_schema(name: str, schema: Mapping[str, Any]) -> None:
  """Raises ValueError, naming the tool, if its schema is invalid."""
  try:
    schema_lib.check(schema)
  except ValueError as error:
    raise ValueError(f'tool {name!r} has a bad schema: {error}') from error


def count(answers: Iterable[Answer]) -> dict[str, int]:
  """Counts calls, and faults by kind."""
  faults = collections.Counter(answer.fault for answer in answers)
  return {'calls': faults.total()} | {kind: faults[kind] for kind in KINDS}


class _Begun(NamedTuple):
  """Running call."""

  call: Call | Malformed
  kind: tuple[type, str]  # of tool
  future: concurrent.futures.Future[Answer]
  at: float


class _Hanging:
  """Abandoned calls that still run, by kind of tool."""

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
  """Starts a call in its own thread, unless too many like it hang."""
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
  """Waits for the answer until the call's timeout."""
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
      f'Unknown tool {call.name!r}; use one of {", ".join(sorted(tools))}.',
    )
  tool = tools[call.name]
  if complaint := schema_lib.mismatch(call.args, tool.schema):
    raise ToolError('arguments', f'{call.name} was not called: {complaint}')
  text = tool(**whole(call.args))
  if not isinstance(text, str):
    raise TypeError(f'its answer must be a str, got {type(text).__name__}')
  return text


def shorten(text: str, most: int) -> str:
  """Truncates the text to `most` characters, with a note."""
  if len(text) <= most:
    return text
  return f'{text[:most]}\n(cut: {len(text) - most} characters more)'
