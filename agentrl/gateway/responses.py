"""Dialect of OpenAI's responses API, without server-side state."""

from collections.abc import Mapping
from typing import Any

from agentrl.gateway import chat
from agentrl.gateway import request as lib
from agentrl.gateway.request import Event, ModelReply, ModelRequest
from agentrl.text.chat_messages import ChatMessage

_UNSUPPORTED: dict[str, Any] = {
  'previous_response_id': (),
  'conversation': (),
  'background': (False,),
  'prompt': (),
}
_UNDERSTOOD = (
  'input', 'instructions', 'model', 'stream', 'text', 'tools',
  'tool_choice', 'store', 'include', *_UNSUPPORTED,
)  # fmt: skip
_ROLES = ('system', 'developer', 'user', 'assistant')

error = chat.error


def parse(body: Mapping[str, Any]) -> ModelRequest:
  lib.refuse(body, _UNSUPPORTED)
  text = lib.field(body, 'text', dict, {})
  lib.refuse({'text.format': text.get('format')}, {'text.format': [_PLAIN]})
  choice = body.get('tool_choice')
  tools = [] if choice == 'none' else lib.objects(body, 'tools', lib.TOOLS)
  ignored = lib.ignored(body, _UNDERSTOOD)
  if choice not in (None, 'auto', 'none'):
    ignored.append('tool_choice')
  instructions = lib.field(body, 'instructions', str, '')
  messages = [ChatMessage('system', instructions)] if instructions else []
  if isinstance(body.get('input'), str):
    messages.append(ChatMessage('user', body['input']))
  else:
    for i, x in enumerate(lib.objects(body, 'input')):
      messages += _item(x, f'input[{i}]')
  return ModelRequest(
    messages=messages,
    tools=lib.tools_of([_tool(x, f'tools[{i}]') for i, x in enumerate(tools)]),
    stream=lib.field(body, 'stream', bool, False),
    ignored=ignored,
    sampling=lib.sampling_fields(body),
  )


_PLAIN = {'type': 'text'}


def _tool(x: Mapping[str, Any], where: str):
  if x.get('type') != 'function':
    raise lib.RefusedError(
      f"{where} must be of type 'function', got {str(x.get('type'))[:40]!r},"
      ' which runs on another server',
      code='unsupported_tool',
    )
  return lib.tool_of(
    x.get('name'), x.get('description'), x.get('parameters'), where
  )


def _item(x: Mapping[str, Any], where: str) -> list[ChatMessage]:
  """Reads an item of the input; parts of one message are joined later.

  A message and its calls arrive as several items.
  """
  kind = x.get('type', 'message')
  if kind == 'reasoning':
    return []
  if kind == 'function_call':
    return [
      ChatMessage(
        'assistant',
        '',
        (
          lib.tool_use(
            x.get('call_id'), x.get('name'), x.get('arguments', '{}'), where
          ),
        ),
      )
    ]
  if kind == 'function_call_output':
    text = lib.text_of(x.get('output'), f'{where}.output')
    answers = lib.field(x, 'call_id', str, '')
    return [ChatMessage('tool', text, answers=answers)]
  if kind != 'message' or x.get('role') not in _ROLES:
    raise lib.RefusedError(
      f'{where} must be a message, a function call or its output, got type'
      f' {str(kind)[:40]!r} and role {str(x.get("role"))[:40]!r}',
      code='unsupported_content',
    )
  role = 'system' if x['role'] == 'developer' else x['role']
  return [ChatMessage(role, lib.text_of(x.get('content'), f'{where}.content'))]


def _output(reply: ModelReply) -> list[dict[str, Any]]:
  """Renders the output: a message if there is text, then calls."""
  items: list[dict[str, Any]] = []
  if reply.text or not reply.calls:
    part = {'type': 'output_text', 'text': reply.text, 'annotations': []}
    item = {'id': f'msg_{reply.id}', 'type': 'message', 'role': 'assistant'}
    status = 'incomplete' if reply.finish == 'length' else 'completed'
    items.append(item | {'status': status, 'content': [part]})
  for i, x in enumerate(reply.calls):
    item = {'id': f'fc_{reply.id}_{i}', 'type': 'function_call'}
    item |= {'call_id': x.id, 'name': x.name, 'arguments': x.arguments}
    items.append(item | {'status': 'completed'})
  return items


def reply(request: ModelRequest, reply: ModelReply) -> dict[str, Any]:
  read, written = len(reply.prompt), len(reply.completion.ids)
  cut = reply.finish == 'length'
  return {
    'id': f'resp_{reply.id}',
    'object': 'response',
    'created_at': reply.created,
    'model': reply.model,
    'status': 'incomplete' if cut else 'completed',
    'incomplete_details': {'reason': 'max_output_tokens'} if cut else None,
    'error': None,
    'output': _output(reply),
    'parallel_tool_calls': True,
    'tool_choice': 'auto',
    'tools': [],
    'usage': {
      'input_tokens': read,
      'input_tokens_details': {'cached_tokens': 0},
      'output_tokens': written,
      'output_tokens_details': {'reasoning_tokens': 0},
      'total_tokens': read + written,
    },
  }


def events(request: ModelRequest, whole: ModelReply) -> list[Event]:
  body = reply(request, whole)
  begun = body | {'status': 'in_progress', 'output': [], 'usage': None}
  out: list[tuple[str, dict[str, Any]]] = [
    ('response.created', {'response': begun}),
    ('response.in_progress', {'response': begun}),
  ]
  for i, item in enumerate(body['output']):
    at = {'output_index': i, 'item_id': item['id']}
    made = _message if item['type'] == 'message' else _call
    empty = {'message': {'content': []}, 'function_call': {'arguments': ''}}
    start = item | empty[item['type']] | {'status': 'in_progress'}
    added = {'output_index': i, 'item': start}
    out.append(('response.output_item.added', added))
    out += made(item, at)
    done = {'output_index': i, 'item': item}
    out.append(('response.output_item.done', done))
  out.append((f'response.{body["status"]}', {'response': body}))
  return [
    (kind, {'type': kind, 'sequence_number': i, **data})
    for i, (kind, data) in enumerate(out)
  ]


def _message(item: Mapping[str, Any], at: Mapping[str, Any]):
  part, at = item['content'][0], {**at, 'content_index': 0}
  text = {**at, 'logprobs': []}
  return [
    ('response.content_part.added', {**at, 'part': part | {'text': ''}}),
    ('response.output_text.delta', text | {'delta': part['text']}),
    ('response.output_text.done', text | {'text': part['text']}),
    ('response.content_part.done', {**at, 'part': part}),
  ]


def _call(item: Mapping[str, Any], at: Mapping[str, Any]):
  kind, text = 'response.function_call_arguments', item['arguments']
  return [
    (f'{kind}.delta', {**at, 'delta': text}),
    (f'{kind}.done', {**at, 'name': item['name'], 'arguments': text}),
  ]
