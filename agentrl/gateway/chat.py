"""Dialect of OpenAI's chat completions, with vLLM's token ids."""

from collections.abc import Mapping
from typing import Any

from agentrl.gateway import request as lib
from agentrl.gateway.request import Event, ModelReply, ModelRequest
from agentrl.text.chat_messages import ChatMessage, ToolUse

_ROLES = {x: x for x in ('system', 'user', 'assistant', 'tool')} | {
  'developer': 'system'
}
_UNSUPPORTED: dict[str, Any] = {
  'n': (1,),
  'response_format': ({'type': 'text'},),
  'modalities': (['text'],),
  'audio': (),
  'functions': ([],),
  'function_call': ('none', 'auto'),
  'echo': (False,),
  'prompt_logprobs': (0,),
}
_UNDERSTOOD = (
  'messages', 'model', 'stream', 'stream_options', 'tools', 'stop',
  'tool_choice', 'logprobs', 'return_token_ids', 'stop_token_ids',
  *_UNSUPPORTED,
)  # fmt: skip


def parse(body: Mapping[str, Any]) -> ModelRequest:
  lib.refuse(body, _UNSUPPORTED)
  options = lib.field(body, 'stream_options', dict, {})
  tools = (
    []
    if body.get('tool_choice') == 'none'
    else lib.objects(body, 'tools', lib.TOOLS)
  )
  ignored = lib.ignored(body, _UNDERSTOOD)
  if body.get('tool_choice') not in (None, 'auto', 'none'):
    ignored.append('tool_choice')  # nothing forces a call
  return ModelRequest(
    messages=[
      _message(x, f'messages[{i}]')
      for i, x in enumerate(lib.objects(body, 'messages'))
    ],
    tools=lib.tools_of([_tool(x, f'tools[{i}]') for i, x in enumerate(tools)]),
    stops=lib.stops_of(body.get('stop'), 'stop'),
    stop_tokens=lib.token_ids(body, 'stop_token_ids'),
    stream=lib.field(body, 'stream', bool, False),
    usage=bool(options.get('include_usage')),
    logprobs=bool(lib.field(body, 'logprobs', (bool, int), False)),
    token_ids=lib.field(body, 'return_token_ids', bool, False),
    ignored=ignored,
    sampling=lib.sampling_fields(body),
  )


def _message(x: Mapping[str, Any], where: str) -> ChatMessage:
  role = _ROLES.get(str(x.get('role')))
  if role is None:
    raise lib.RefusedError(
      f'{where}.role={str(x.get("role"))[:40]!r} is unknown; use one of'
      f' {", ".join(_ROLES)}'
    )
  text = lib.text_of(x.get('content'), f'{where}.content')
  calls: list[ToolUse] = []
  for call in lib.objects(x, 'tool_calls') if role == 'assistant' else []:
    function = lib.field(call, 'function', dict, {})
    arguments = function.get('arguments', '{}')
    calls.append(
      lib.tool_use(call.get('id'), function.get('name'), arguments, where)
    )
  answers = lib.field(x, 'tool_call_id', str, '') if role == 'tool' else ''
  return ChatMessage(role, text, tuple(calls), answers)


def _tool(x: Mapping[str, Any], where: str):
  if x.get('type', 'function') != 'function':
    raise lib.RefusedError(
      f'{where} is of type {str(x.get("type"))[:40]!r}, which is not supported'
      ' here; only functions are',
      code='unsupported_tool',
    )
  f = lib.field(x, 'function', dict, {})
  return lib.tool_of(
    f.get('name'), f.get('description'), f.get('parameters'), where
  )


def usage(reply: ModelReply) -> dict[str, int]:
  read, written = len(reply.prompt), len(reply.completion.ids)
  return {
    'prompt_tokens': read,
    'completion_tokens': written,
    'total_tokens': read + written,
  }


def logprobs(reply: ModelReply) -> dict[str, Any]:
  """Returns the log-probs of the tokens, each named by its id."""
  done = reply.completion
  content = [
    {'token': f'token_id:{i}', 'logprob': x, 'bytes': None, 'top_logprobs': []}
    for i, x in zip(done.ids, done.logp, strict=True)
  ]
  return {'content': content, 'refusal': None}


def _calls(reply: ModelReply) -> list[dict[str, Any]]:
  return [
    {
      'id': x.id,
      'type': 'function',
      'function': {'name': x.name, 'arguments': x.arguments},
    }
    for x in reply.calls
  ]


def _head(reply: ModelReply, kind: str) -> dict[str, Any]:
  return {
    'id': f'chatcmpl-{reply.id}',
    'object': kind,
    'created': reply.created,
    'model': reply.model,
  }


def reply(request: ModelRequest, reply: ModelReply) -> dict[str, Any]:
  message: dict[str, Any] = {'role': 'assistant', 'content': reply.text}
  if reply.calls:
    message |= {'content': reply.text or None, 'tool_calls': _calls(reply)}
  choice = {'index': 0, 'message': message, 'finish_reason': reply.finish}
  choice['stop_reason'] = reply.stop  # as vLLM has it
  choice['logprobs'] = logprobs(reply) if request.logprobs else None
  body = _head(reply, 'chat.completion')
  body |= {'choices': [choice], 'usage': usage(reply)}
  if request.token_ids:
    choice['token_ids'] = list(reply.completion.ids)
    body['prompt_token_ids'] = list(reply.prompt)
  return body


def events(request: ModelRequest, reply: ModelReply) -> list[Event]:
  head = _head(reply, 'chat.completion.chunk')

  def chunk(delta: Any, finish: str | None = None, **more: Any) -> Event:
    choice = {'index': 0, 'delta': delta, 'finish_reason': finish, **more}
    return '', head | {'choices': [choice]}

  more: dict[str, Any] = {}
  if request.logprobs:
    more['logprobs'] = logprobs(reply)
  if request.token_ids:
    more['token_ids'] = list(reply.completion.ids)
  first = chunk({'role': 'assistant', 'content': ''})
  if request.token_ids:
    first = '', {**first[1], 'prompt_token_ids': list(reply.prompt)}
  out = [first]
  if reply.text:
    out.append(chunk({'content': reply.text}))
  for i, call in enumerate(_calls(reply)):
    out.append(chunk({'tool_calls': [{'index': i, **call}]}))
  out.append(chunk({}, reply.finish, stop_reason=reply.stop, **more))
  if request.usage:
    out.append(('', head | {'choices': [], 'usage': usage(reply)}))
  return out


def error(error: lib.RefusedError) -> dict[str, Any]:
  kind = 'invalid_request_error' if error.status < 500 else 'server_error'
  body = {'message': str(error), 'type': kind, 'param': None}
  return {'error': body | {'code': error.code}}
