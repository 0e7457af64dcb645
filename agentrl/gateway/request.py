"""Requests and replies of the gateway, independent of the dialect.

Bodies are plain JSON: known fields are checked here, with one sentence per
mistake; unsupported ones are refused by name, and all others are counted.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from agentrl.gateway import json_text
from agentrl.rollout.engine.engine import Completion
from agentrl.text.chat_messages import ChatMessage, ToolUse, canonical_json
from agentrl.text.tool_calls.base import ToolDescription

MESSAGES = 1 << 13  # of a request
TOOLS = 256
STOPS = 16  # texts that end a message
STOP_LENGTH = 256  # characters of one
# Of the attempt, whatever the client asks for.
SAMPLING = (
  'temperature',
  'top_p',
  'top_k',
  'seed',
  'max_tokens',
  'max_completion_tokens',
  'max_output_tokens',
)
TEXT_PARTS = ('text', 'input_text', 'output_text')
_NAME = re.compile(r'[\w.:-]{1,128}')


class RefusedError(Exception):
  """Refused request, with the reason in one sentence."""

  def __init__(self, text: str, *, status: int = 400, code: str = ''):
    super().__init__(text)
    self.status, self.code = status, code or _CODES.get(status, '')


_CODES = {
  400: 'invalid_request',
  401: 'invalid_api_key',
  403: 'foreign_site',
  404: 'unknown_session',
  408: 'request_timeout',
  409: 'conflict',
  413: 'body_too_large',
  415: 'unsupported_media_type',
  500: 'generation_failed',
  503: 'gateway_closed',
}


class ModelRequest(NamedTuple):
  """Call of the model, with either messages or tokens."""

  messages: Sequence[ChatMessage] = ()
  tools: Sequence[ToolDescription] = ()
  tokens: Sequence[int] = ()
  stops: Sequence[str] = ()
  stop_tokens: Sequence[int] = ()
  stream: bool = False
  usage: bool = False  # a stream ends with it
  logprobs: bool = False
  token_ids: bool = False
  ignored: Sequence[str] = ()  # fields that change nothing
  # Of `SAMPLING`, unchecked: attempts have theirs.
  sampling: Mapping[str, Any] = {}
  # Of served models: the digest of the conversation to each message, and
  # whether the agent wrote that one.
  prefixes: Sequence[tuple[bytes, bool]] = ()


class ModelReply(NamedTuple):
  """Message of the model."""

  id: str
  created: int  # seconds
  model: str
  text: str  # without its calls
  calls: Sequence[ToolUse]
  finish: str  # 'stop', 'length' or 'tool_calls'
  prompt: Sequence[int]  # tokens
  completion: Completion
  stop: str | int | None = None  # text or token of the request that ended it

  @property
  def message(self) -> ChatMessage:
    """The message as the client will repeat it."""
    return ChatMessage('assistant', self.text, tuple(self.calls))


Event = tuple[str, Mapping[str, Any]]  # its name, '' for none, and its data


class Dialect(Protocol):
  """Wire format of requests, replies and errors."""

  def parse(self, body: Mapping[str, Any]) -> ModelRequest:
    """Parses a body; RefusedError, one sentence, for unsupported ones."""

  def reply(self, request: ModelRequest, reply: ModelReply) -> dict[str, Any]:
    """Renders a whole reply."""

  def error(self, error: RefusedError) -> dict[str, Any]:
    """Renders a refusal."""


@runtime_checkable
class StreamingDialect(Dialect, Protocol):
  """Dialect whose requests may ask for a stream."""

  def events(self, request: ModelRequest, reply: ModelReply) -> list[Event]:
    """Renders the reply as a stream."""


def parse_body(raw: bytes) -> dict[str, Any]:
  """Parses the JSON object of a body.

  Raises:
    RefusedError: it is not an object, or exceeds the limits of `json_text`.
  """
  try:
    body = json_text.loads(raw)
  except ValueError as error:
    raise RefusedError(f'the body {error}') from None
  if not isinstance(body, dict):
    raise RefusedError('the body must be a JSON object')
  return body


def field(body: Mapping[str, Any], name: str, kind: Any, default: Any) -> Any:
  """Reads a field of a type; null counts as missing.

  Raises:
    RefusedError: it is of another type.
  """
  value = body.get(name)
  if value is None:
    return default
  if not isinstance(value, kind) or (kind is int and value is True):
    raise RefusedError(
      f'{name} must be {_kind_name(kind)}, got {type(value).__name__}'
    )
  return value


def _kind_name(kind: Any) -> str:
  if isinstance(kind, tuple):
    return ' or '.join(map(_kind_name, kind))
  return _KINDS.get(kind, kind.__name__)


_KINDS = {
  dict: 'an object',
  list: 'an array',
  str: 'a string',
  bool: 'a boolean',
  int: 'an integer',
  float: 'a number',
}


def objects(
  body: Mapping[str, Any], name: str, most: int = MESSAGES
) -> list[dict[str, Any]]:
  """Reads a list of objects; [] if it is missing."""
  several = field(body, name, list, [])
  if len(several) > most:
    raise RefusedError(
      f'{name} must have at most {most} entries, got {len(several)}'
    )
  for i, x in enumerate(several):
    if not isinstance(x, dict):
      raise RefusedError(f'{name}[{i}] must be an object')
  return several


def refuse(body: Mapping[str, Any], names: Mapping[str, Sequence[Any]]) -> None:
  """Raises RefusedError for a field with an unsupported value.

  Args:
    names: of the fields, each with the values that have no effect
  """
  for name, allowed in names.items():
    value = body.get(name)
    if value is not None and value not in allowed:
      raise RefusedError(
        f'{name}={json.dumps(value)[:80]} is not supported here; leave it out',
        code='unsupported_parameter',
      )


def ignored(body: Mapping[str, Any], understood: Iterable[str]) -> list[str]:
  """Lists the fields of the body that have no effect."""
  return [x for x in body if x not in {*understood}]


def sampling_fields(body: Mapping[str, Any]) -> dict[str, Any]:
  """Selects the sampling fields of the body."""
  return {x: body[x] for x in SAMPLING if body.get(x) is not None}


def text_of(content: Any, where: str) -> str:
  """Reads a content: a string, or parts that are text.

  Raises:
    RefusedError: a part is not text.
  """
  if content is None:
    return ''
  if isinstance(content, str):
    return content
  if not isinstance(content, list):
    raise RefusedError(f'{where} must be a string or an array of parts')
  return ''.join(_text_part(part, where) for part in content)


def _text_part(part: Any, where: str) -> str:
  kind = part.get('type') if isinstance(part, dict) else None
  if kind not in TEXT_PARTS:
    raise RefusedError(
      f'parts of {where} must be text, got type {json.dumps(kind)[:40]}',
      code='unsupported_content',
    )
  text = part.get('text')
  if not isinstance(text, str):
    raise RefusedError(f'text parts of {where} must have a string as text')
  return text


def tool_of(
  name: Any, description: Any, schema: Any, where: str
) -> ToolDescription:
  """Reads the description of a tool.

  Raises:
    RefusedError: the name is missing, or a field has a wrong type.
  """
  if not isinstance(name, str) or not _NAME.fullmatch(name):
    raise RefusedError(
      f'{where} must have a name of at most 128 letters, digits and ._:-'
    )
  if not isinstance(description, str | None) or not isinstance(
    schema, dict | None
  ):
    raise RefusedError(
      f'{where}: the description of {name!r} must be a string and its schema'
      ' an object'
    )
  schema = schema or {'type': 'object', 'properties': {}}
  unset = [x for x in ('properties', 'required') if schema.get(x) is None]
  schema = {k: v for k, v in schema.items() if k not in unset}
  properties, required = schema.get('properties', {}), schema.get('required')
  if not isinstance(properties, dict) or not all(
    isinstance(x, dict | bool) for x in properties.values()
  ):
    raise RefusedError(
      f'{where}: the properties of {name!r} must be an object of schemas'
    )
  if not isinstance(required, list | None) or not all(
    isinstance(x, str) for x in required or ()
  ):
    raise RefusedError(
      f'{where}: required of {name!r} must be an array of strings'
    )
  return ToolDescription(name, description or '', schema)


def tools_of(tools: Sequence[ToolDescription]) -> Sequence[ToolDescription]:
  """Checks the tools; RefusedError for too many, or duplicate names."""
  names = {x.name for x in tools}
  if len(tools) > TOOLS or len(names) < len(tools):
    raise RefusedError(
      f'tools must be at most {TOOLS} with distinct names, got {len(tools)}'
      f' with {len(names)} names'
    )
  return tools


def tool_use(id: Any, name: Any, arguments: Any, where: str) -> ToolUse:
  """Reads a call that a client repeats; its arguments as canonical JSON.

  Args:
    arguments: JSON text, or its parsed value
  """
  if not isinstance(name, str) or not isinstance(id, str):
    raise RefusedError(f'a call in {where} must have an id and a name')
  if isinstance(arguments, str):
    try:
      arguments = json_text.loads(arguments)
    except ValueError:
      return ToolUse(id, name, arguments)
  return ToolUse(id, name, canonical_json(arguments))


def token_ids(body: Mapping[str, Any], name: str) -> list[int]:
  """Reads a list of token ids; [] if missing. Raises RefusedError."""
  ids = field(body, name, list, [])
  if any(type(i) is not int or not 0 <= i < 2**31 for i in ids):
    raise RefusedError(f'{name} must be an array of token ids')
  return ids


def stops_of(stop: Any, name: str) -> Sequence[str]:
  """Reads the stop strings. Raises RefusedError for other values."""
  stops = [stop] if isinstance(stop, str) else (stop or [])
  fits = isinstance(stops, list) and all(isinstance(x, str) for x in stops)
  if not fits or len(stops) > STOPS or any(len(x) > STOP_LENGTH for x in stops):
    raise RefusedError(
      f'{name} must be at most {STOPS} strings of at most {STOP_LENGTH}'
      ' characters'
    )
  return [x for x in stops if x]
