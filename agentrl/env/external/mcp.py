"""Prompts of a file, answered with the tools of an MCP server.

  {"prompt": "How many orders has Ann?", "answer": 3}

Tasks and verifiers work as in env=jsonl. A message calls tools of the server or
ends with <answer>...</answer>, whose text the verifier scores. A tool's error
is an answer like any other; a server that dies costs its trajectory.
"""

import dataclasses
import functools
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from agentrl import domain
from agentrl.env import base, task_sampling, tool_env
from agentrl.env.base import HostTask, Step
from agentrl.env.files import jsonl
from agentrl.text import spans as spans_lib
from agentrl.text.spans import Interval
from agentrl.text.tool_calls import FormatName, format_of
from agentrl.text.tool_calls.base import Described, ToolDescription
from agentrl.tool.mcp import McpServer

RULES = 'Answer with the help of the tools.'
Named = TypeVar('Named', bound=Described)


@dataclasses.dataclass(frozen=True)
class Mcp:
  """A task is a row of the file and the text of its prompt."""

  server: str = ''  # command of a server, or its URL (streamable HTTP)
  path: domain.Place = ''  # file of prompts, a JSON object a line
  verifier: str = (
    ''  # 'module:function', or a name of agentrl/env/files/verifiers.py
  )
  test_path: domain.Place = ''  # file of held-out prompts; '': a fifth of path
  tools: str = ''  # names of those that the agent may call; '': all
  fresh: bool = True  # each episode starts the server anew, or connects anew
  format: FormatName = 'hermes'  # of calls
  seconds: domain.Positive = 30.0  # for a server to start, and for each call
  characters: domain.Count = 4000  # most of a tool's answer

  columns: ClassVar[tuple[str, ...]] = tool_env.COLUMNS
  worker: ClassVar[str] = 'thread'  # which waits for the server

  def check(self) -> None:
    words_of(self.server)
    prompts = self._prompts()
    prompts.grader()
    prompts.sizes()
    self._descriptions()

  @property
  def system(self) -> str:
    if not (self.server and self.path):
      return ''
    prompts = self._prompts()
    prompts.grader()  # a mistake in the file comes before a server is started
    rules = '\n'.join(filter(None, (prompts.system, RULES)))
    return tool_env.describe_tools(rules, self._descriptions(), self.format)

  def name(self) -> str:
    return task_sampling.name('mcp', self, self.path, self.test_path)

  def sizes(self) -> Mapping[str, int]:
    """Counts distinct prompts by split; see `base.FiniteFamily`."""
    return self._prompts().sizes()

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    """Yields the tasks of `jsonl.Jsonl`; see `base.EnvFamily`."""
    return self._prompts().tasks(split, count, seed)

  def env(self) -> 'McpEnv':
    return McpEnv(self, self._prompts().grader())

  def spans(self, message: str) -> Sequence[Interval]:
    tools = self._descriptions() if self.server else ()
    calls = format_of(self.format).locate(message, tools)
    return spans_lib.mark(message, calls)

  def _prompts(self) -> jsonl.Jsonl:
    return jsonl.Jsonl(self.path, self.verifier, self.test_path)

  def _descriptions(self) -> list[ToolDescription]:
    return chosen(listed(self.server, self.seconds), self.tools)


class McpEnv:
  """Plays prompts with one server at a time."""

  def __init__(self, family: Mcp, grade: Any):
    """Starts no server yet.

    Args:
      grade: (message, row) -> score and numbers to log
    """
    self._family, self._grade = family, grade
    self._server: McpServer | None = None
    self._inner = tool_env.ToolEnv(
      self._begin, format_of(family.format), close=self._end
    )

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    """Begins a task, on a new server if the family asks for fresh ones."""
    return self._inner.reset(task, seed)

  def step(self, message: str) -> Step:
    """Calls tools, or ends the task.

    Raises:
      ConnectionError: the server has died.
    """
    step = self._inner.step(message)
    if self._server is not None and not self._server.alive:
      raise ConnectionError(
        f'the MCP server {self._family.server!r} died in an episode'
      )
    return step

  def close(self) -> None:
    self._inner.close()

  def _begin(self, task: Mapping[str, Any], seed: int) -> tool_env.ToolTask:
    del seed  # nothing here is random
    family, row = self._family, task['row']
    if family.fresh:
      self._end()
    if self._server is None:
      self._server = opened(family.server, family.seconds, family.characters)

    def judge(answer: str) -> tool_env.Grade:
      return tool_env.Grade(self._grade(answer, row)[0])

    tools = chosen(self._server.tools, family.tools)
    return tool_env.ToolTask(task['text'], tools, judge)

  def _end(self) -> None:
    server, self._server = self._server, None
    if server is not None:
      server.close()


def words_of(server: str) -> str | list[str]:
  """Returns a URL as is, or splits a command.

  Raises:
    ValueError: it is neither.
  """
  if server.startswith(('http://', 'https://')):
    return server
  try:
    words = shlex.split(server)
  except ValueError as error:
    raise ValueError(
      f'env.server must be a command line or a URL, got {server!r} ({error})'
    ) from error
  if not words:
    raise ValueError(
      "env.server must be a command, such as 'python server.py', or a URL,"
      " got ''"
    )
  return words


def opened(server: str, seconds: float, characters: int) -> McpServer:
  """Opens a server once, without restarts; a dead one raises.

  Raises:
    ConnectionError: it does not start; the next episode tries again.
  """
  words = words_of(server)
  try:
    return McpServer(words, seconds=seconds, characters=characters, restarts=0)
  except ValueError as error:
    raise ConnectionError(str(error)) from error


@functools.lru_cache(maxsize=4)
def listed(server: str, seconds: float) -> tuple[ToolDescription, ...]:
  """Lists the tools of a server; the result is cached.

  Raises:
    ValueError: it does not start.
  """
  words = words_of(server)
  try:
    held = McpServer(words, seconds=seconds)
  except ImportError as error:
    raise base.missing('mcp', 'host') from error
  except ValueError as error:
    raise ValueError(f'env.server: {error}') from error
  with held:
    return tuple(
      ToolDescription(x.name, x.description, x.schema) for x in held.tools
    )


def chosen(tools: Sequence[Named], names: str) -> list[Named]:
  """Selects tools by name; all of them for ''.

  Raises:
    ValueError: there is no such tool, or none at all.
  """
  by_name = {x.name: x for x in tools}
  wanted = names.split() or list(by_name)
  if lost := [x for x in wanted if x not in by_name] or not wanted:
    raise ValueError(
      f'env.tools must be among {sorted(by_name)}, got {names!r}, of which the'
      f' server lacks {lost}'
    )
  return [by_name[x] for x in wanted]
