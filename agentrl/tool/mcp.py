"""The tools of any server of the Model Context Protocol, by its own package."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from agentrl.runtime import install
from agentrl.tool import base, mcp_answers, schema, subreaper
from agentrl.tool.base import ToolError, shorten


class McpServer:
  """A server that is started here or spoken to, and what it offers.

    with McpServer(['python', 'server.py']) as server:
      base.run(calls, server.tools, pool)

  One connection serves all threads; calls of one turn go on side by side if
  the server lets them. A server that died fails the calls that met it, and is
  started again (a URL: connected to) by the next one. The server is a program
  of yours with your rights: nothing here shuts it in. The tools are those that
  it lists at first, whatever it changes later: a prompt has named them.
  """

  def __init__(
    self,
    server: str | Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    seconds: float = 30.0,
    characters: int = 4000,
    restarts: int = 16,
  ):
    """Connects, and lists the tools.

    Args:
      server: a URL (streamable HTTP), or the words of a command that speaks
        the protocol on its input and output.
      env: variables for the command, beside PATH, HOME and the like.
      seconds: for each start, and for each call.
      characters: most that an answer has.
      restarts: how often in all a server that died is started again.

    Raises:
      ImportError: mcp is not installed.
      ValueError: nothing answers there, two tools have one name, or a tool has
        a faulty schema.
    """
    self._seconds, self._characters = seconds, characters
    self._restarts = self._restarts_left = restarts
    self._target = _target(server, env)
    self._lock = threading.Lock()  # of the connection, of which there is one
    self._closed = False
    command = server if isinstance(server, str) else ' '.join(server)
    try:
      # None between a death and the next call.
      self._connection: _Connection | None = _Connection(self._target, seconds)
    except Exception as error:  # whatever the package or the server raises
      raise ValueError(
        f'no MCP server answers at {command!r}: {error or "no time left"};'
        ' give a URL or a command as a list of words'
      ) from error
    self.tools = [McpTool(self, tool) for tool in self._connection.listed]
    self._output = {x.name: x.output_schema for x in self._connection.listed}
    try:
      base.named(self.tools)
      for name, output in self._output.items():
        base.check_schema(name, output or {})
    except ValueError as error:
      self.close()
      raise ValueError(
        f'the MCP server {command!r} cannot be used: {error}'
      ) from error

  def __enter__(self) -> 'McpServer':
    return self

  def __exit__(self, *_: Any) -> None:
    self.close()

  @property
  def alive(self) -> bool:
    """Whether a connection stands; not after a death, until the next call."""
    connection = self._connection
    return connection is not None and connection.alive

  def close(self) -> None:
    """Ends the connection.

    A server that was started here ends too, with all that it has started.
    """
    with self._lock:
      self._closed, connection = True, self._connection
      self._connection = None
    if connection is not None:
      connection.close()

  def call(self, name: str, args: Mapping[str, Any]) -> str:
    """Returns the text of a tool's answer.

    Raises:
      ToolError: error if the tool or the server says so or has died, time.
    """
    connection = self._connected(name)
    future = connection.ask(name, args)
    try:
      result = future.result(self._seconds)
    except concurrent.futures.TimeoutError as error:
      future.cancel()
      raise ToolError(
        'time', f'{name} did not answer in {self._seconds:g} s.'
      ) from error
    except Exception as error:
      if not connection.answers(self._seconds):
        with self._lock:  # several calls may meet one death
          if self._connection is connection:
            self._connection = None
        connection.close()
      raise ToolError('error', f'{name} failed: {_why(error)}') from error
    return self._read(name, result)

  def _read(self, name: str, result: Any) -> str:
    """Returns the text of an answer.

    Raises:
      ToolError: it is an error, or not what the tool's schema promises.
    """
    text = shorten(mcp_answers.text_of(result), self._characters)
    if result.is_error:
      raise ToolError('error', text or f'{name} failed and did not say why.')
    structured = result.structured_content
    promised = self._output.get(name) or True  # which everything fits
    if structured is not None and (
      complaint := schema.violation(structured, promised)
    ):
      raise ToolError(
        'error', f'{name} failed: in its structured answer {complaint}'
      )
    return text or f'{name} answered with nothing.'

  def _connected(self, name: str) -> '_Connection':
    """Returns the connection that stands, or a new one after a death."""
    with self._lock:
      if self._connection is not None and self._connection.alive:
        return self._connection
      if self._closed:
        raise ToolError('error', f'{name} failed: its server has ended.')
      if not self._restarts_left:
        raise ToolError(
          'error',
          f'{name} failed: its server has died, and was started again'
          f' {self._restarts} times already.',
        )
      self._restarts_left -= 1
      try:
        self._connection = _Connection(self._target, self._seconds)
      except Exception as error:
        why = str(error or 'no time left')[:300]
        raise ToolError(
          'error', f'{name} failed: its server cannot be started again: {why}'
        ) from error
      return self._connection


class _Connection:
  """A client in a loop and a thread of its own, and the tools it lists."""

  def __init__(self, target: Any, seconds: float):
    self._target = target
    self._loop = asyncio.new_event_loop()
    self._ready: concurrent.futures.Future = concurrent.futures.Future()
    self._task = self._loop.create_task(self._held())
    self._thread = threading.Thread(target=self._live, daemon=True)
    self._thread.start()
    try:
      self._client, self.listed = self._ready.result(seconds)
    except Exception:
      self.close()
      raise

  @property
  def alive(self) -> bool:
    return self._thread.is_alive()

  def ask(
    self, name: str, args: Mapping[str, Any]
  ) -> concurrent.futures.Future:
    return asyncio.run_coroutine_threadsafe(
      self._client.call_tool(name, dict(args)), self._loop
    )

  def answers(self, seconds: float) -> bool:
    """Tells if the server still lists its tools: the error was a call's."""
    if not self.alive:
      return False
    future = asyncio.run_coroutine_threadsafe(
      self._client.list_tools(cache_mode='bypass'), self._loop
    )
    try:
      future.result(seconds)
    except Exception:  # of every kind of transport
      future.cancel()
      return False
    return True

  def close(self) -> None:
    if self._thread.is_alive():
      self._loop.call_soon_threadsafe(self._task.cancel)
      self._thread.join(10)

  def _live(self) -> None:
    """Runs the thread's loop until `close`."""
    try:
      self._loop.run_until_complete(self._task)
    except BaseException as error:  # told to whoever waits for the start
      first = error
      while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
      if not self._ready.done():
        self._ready.set_exception(RuntimeError(_why(first)))
    finally:
      self._loop.close()

  async def _held(self) -> None:
    async with _package().Client(self._target) as client:
      # The package matches patterns of the server in a way that may hang all
      # threads; `McpServer` holds answers against the schema itself.
      client.session.validate_tool_result = _unchecked
      page = await client.list_tools(cursor=None)
      tools, cursors = list(page.tools), set()
      while page.next_cursor:
        if page.next_cursor in cursors:
          raise ValueError('it lists its tools in a circle')
        cursors.add(page.next_cursor)
        page = await client.list_tools(cursor=page.next_cursor)
        tools += page.tools
      self._ready.set_result((client, tools))
      await asyncio.Event().wait()  # until `close` cancels it


async def _unchecked(name: str, result: Any) -> None:
  """Stands for a check of the package's client."""


class McpTool:
  """One tool of a server; another `name` may be set, as for two servers."""

  def __init__(self, server: McpServer, listed: Any):
    self._server, self._listed_name = server, listed.name
    self.name: str = listed.name
    self.description: str = listed.description or ''
    self.schema: dict[str, Any] = listed.input_schema

  def __call__(self, **args: Any) -> str:
    return self._server.call(self._listed_name, args)


def _why(error: BaseException) -> str:
  """Says what went wrong, in one line."""
  import pydantic  # with which the package reads messages

  if isinstance(error, pydantic.ValidationError):
    first = error.errors()[0]
    place = '.'.join(map(str, first['loc']))
    return f'its server breaks the protocol, {place}: {first["msg"]}'[:500]
  text = ' '.join(str(error).split())
  return (
    f'{type(error).__name__}: {text}'[:500] if text else type(error).__name__
  )


def _package() -> Any:
  try:
    import mcp
  except ImportError as error:
    raise ImportError(
      f'MCP servers need mcp; run {install.command("host")}'
    ) from error
  return mcp


def _target(server: str | Sequence[str], env: Mapping[str, str] | None) -> Any:
  package = _package()
  if isinstance(server, str):
    return server
  if not server:
    raise ValueError('the command of an MCP server has no words; give some')
  command, *args = subreaper.command(server)
  return package.StdioServerParameters(
    command=command, args=args, env=dict(env or {})
  )
