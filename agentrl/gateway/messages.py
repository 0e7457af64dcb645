"""Dialect of Anthropic's messages."""

import json
from collections.abc import Mapping
from typing import Any

from agentrl.gateway import request as lib
from agentrl.gateway.request import Event, ModelReply, ModelRequest
from agentrl.text.chat_messages import ChatMessage

_FINISH = {'stop': 'end_turn', 'length': 'max_tokens', 'tool_calls': 'tool_use'}
_UNSUPPORTED: dict[str, Any] = {
  'container': (),
  'mcp_servers': ([],),
  'output_format': (),
}
_FORMAT: dict[str, Any] = {'output_config.format': ()}
_UNDERSTOOD = (
  'messages',
  'model',
  'stream',
  'system',
  'tools',
  'stop_sequences',
  'tool_choice',
  *_UNSUPPORTED,
)
_ERRORS = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
}


def parse(body: Mapping[str, Any]) -> ModelRequest:
  lib.refuse(body, _UNSUPPORTED)
  output = lib.field(body, 'output_config', dict, {})
  lib.refuse({'output_config.format': output.get('format')}, _FORMAT)
  choice = lib.field(body, 'tool_choice', dict, {}).get('type', 'auto')
  tools = [] if choice == 'none' else lib.objects(body, 'tools', lib.TOOLS)
  ignored = lib.ignored(body, _UNDERSTOOD)
  if choice not in ('auto', 'none'):
    ignored.append('tool_choice')
  system = lib.text_of(body.get('system'), 'system')
  messages = [ChatMessage('system', system)] if system else []
  for i, x in enumerate(lib.objects(body, 'messages')):
    messages += _messages(x, f'messages[{i}]')
  return ModelRequest(
    messages=messages,
    tools=lib.tools_of([_tool(x, f'tools[{i}]') for i, x in enumerate(tools)]),
    stops=lib.stops_of(body.get('stop_sequences'), 'stop_sequences'),
    stream=lib.field(body, 'stream', bool, False),
    ignored=ignored,
    sampling=lib.sampling_fields(body),
  )


def _tool(x: Mapping[str, Any], where: str):
  if x.get('type', 'custom') != 'custom':
    raise lib.RefusedError(
      f'{where} is of type {str(x.get("type"))[:40]!r}, which runs on another'
      ' server and is not supported here; describe it by an input_schema',
      code='unsupported_tool',
    )
  return lib.tool_of(
    x.get('name'), x.get('description'), x.get('input_schema'), where
  )


def _messages(x: Mapping[str, Any], where: str) -> list[ChatMessage]:
  """Splits a message: tool results in it are messages of their own, first."""
  role, content = x.get('role'), x.get('content')
  if role not in ('user', 'assistant', 'system'):
    raise lib.RefusedError(
      f"{where}.role={str(role)[:40]!r} is unknown; use 'user' or 'assistant'"
    )
  blocks = content if isinstance(content, list) else []
  texts: Any = []
  calls, results = [], []
  for block in blocks:
    kind = block.get('type') if isinstance(block, dict) else None
    if kind == 'tool_use' and role == 'assistant':
      arguments = block.get('input', {})
      calls.append(
        lib.tool_use(block.get('id'), block.get('name'), arguments, where)
      )
    elif kind == 'tool_result' and role == 'user':
      text = lib.text_of(block.get('content'), f'{where}.content')
      answers = lib.field(block, 'tool_use_id', str, '')
      results.append(ChatMessage('tool', text, answers=answers))
    elif kind not in ('thinking', 'redacted_thinking'):
      texts.append(block)
  if not isinstance(content, list):
    texts = content
  text = lib.text_of(texts, f'{where}.content')
  message = ChatMessage(role, text, tuple(calls))
  return results if results and not text else [*results, message]


def _usage(reply: ModelReply) -> dict[str, int]:
  return {
    'input_tokens': len(reply.prompt),
    'output_tokens': len(reply.completion.ids),
  }


def _blocks(reply: ModelReply) -> list[dict[str, Any]]:
  blocks: list[dict[str, Any]] = []
  if reply.text or not reply.calls:
    blocks.append({'type': 'text', 'text': reply.text})
  for x in reply.calls:
    use = {'type': 'tool_use', 'id': x.id, 'name': x.name}
    blocks.append(use | {'input': json.loads(x.arguments)})
  return blocks


def _ending(reply: ModelReply) -> dict[str, str | None]:
  """Says why the message ended; calls go before a stop sequence behind them."""
  if reply.finish == 'stop' and isinstance(reply.stop, str):
    return {'stop_reason': 'stop_sequence', 'stop_sequence': reply.stop}
  return {'stop_reason': _FINISH[reply.finish], 'stop_sequence': None}


def reply(request: ModelRequest, reply: ModelReply) -> dict[str, Any]:
  return {
    'id': f'msg_{reply.id}',
    'type': 'message',
    'role': 'assistant',
    'model': reply.model,
    'content': _blocks(reply),
    **_ending(reply),
    'usage': _usage(reply),
  }


def events(request: ModelRequest, whole: ModelReply) -> list[Event]:
  begun = reply(request, whole) | {'content': []}
  begun |= {'stop_reason': None, 'stop_sequence': None}
  begun['usage'] = _usage(whole) | {'output_tokens': 0}
  out: list[Event] = [_event('message_start', message=begun)]
  for i, block in enumerate(_blocks(whole)):
    if block['type'] == 'text':
      empty: dict[str, Any] = {'text': ''}
      delta = {'type': 'text_delta', 'text': block['text']}
    else:
      text = json.dumps(block['input'], ensure_ascii=False)
      empty = {'input': {}}
      delta = {'type': 'input_json_delta', 'partial_json': text}
    start = block | empty
    out += [
      _event('content_block_start', index=i, content_block=start),
      _event('content_block_delta', index=i, delta=delta),
      _event('content_block_stop', index=i),
    ]
  return [
    *out,
    _event('message_delta', delta=_ending(whole), usage=_usage(whole)),
    _event('message_stop'),
  ]


def _event(kind: str, **data: Any) -> Event:
  return kind, {'type': kind, **data}


def error(error: lib.RefusedError) -> dict[str, Any]:
  kind = _ERRORS.get(error.status, 'invalid_request_error')
  if error.status >= 500:
    kind = 'api_error'
  text = str(error)
  if error.code == 'context_length_exceeded':
    text = f'prompt is too long: {text}'
  return {'type': 'error', 'error': {'type': kind, 'message': text}}
