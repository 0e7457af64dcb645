"""Every field of every dialect, with values of every type."""

import asyncio
import copy
import itertools
import json

import pytest

from agentrl.gateway.app import GatewayApp, GatewayLimits
from agentrl.gateway.served import ServedModel
from agentrl.text import chat_format
from agentrl.text.tool_calls import format_of
from tests.gateway.stub import WORDS, Stub, made

DEEP = 0
for _ in range(50):
  DEEP = [DEEP]
VALUES = [
  None, True, False, 0, 1, -1, 2**63, -(2**63), 10**400, 1.5, -0.0, 1e308,
  float('nan'), float('inf'), '', 'x', '\ud83d', 'é\n"', 'x' * 3000,
  [], [[]], [None], [1], ['x'], ['x', 'x'], [{}], [['x']], [True], [-1],
  {}, {'a': 1}, {'type': []}, {'type': 'text'}, {'type': 'function'},
  [{'type': 'text', 'text': 1}], {'\ud83d': '\ud83d'}, DEEP,
  [{'type': 'text', 'text': 'x'}],
]  # fmt: skip
SCHEMA = {
  'type': 'object',
  'properties': {'x': {'type': 'string', 'enum': ['a']}},
  'required': ['x'],
  'additionalProperties': False,
  '$defs': {},
}
_NUMBERS = (
  'temperature', 'top_p', 'top_k', 'seed', 'max_tokens', 'min_p', 'n',
  'max_completion_tokens', 'max_output_tokens', 'frequency_penalty',
  'presence_penalty', 'repetition_penalty', 'min_tokens', 'best_of',
  'logit_bias', 'bad_words', 'ignore_eos', 'skip_special_tokens',
)  # fmt: skip
SAMPLING = dict.fromkeys(_NUMBERS, 1)
CHAT = {
  'model': 'm',
  'messages': [
    {'role': 'system', 'content': 'x', 'name': 'x'},
    {'role': 'user', 'content': [{'type': 'text', 'text': 'x'}]},
    {
      'role': 'assistant',
      'content': None,
      'tool_calls': [
        {
          'id': 'c',
          'type': 'function',
          'function': {'name': 'f', 'arguments': '{"x": "a"}'},
        }
      ],
    },
    {'role': 'tool', 'content': 'x', 'tool_call_id': 'c'},
  ],
  'tools': [
    {
      'type': 'function',
      'function': {'name': 'f', 'description': 'x', 'parameters': SCHEMA},
    }
  ],
  'stream_options': {'include_usage': True},
  **dict.fromkeys(('response_format', 'modalities', 'audio', 'functions')),
  **dict.fromkeys(('function_call', 'echo', 'prompt_logprobs', 'stream')),
  **dict.fromkeys(('tool_choice', 'logprobs', 'top_logprobs', 'stop')),
  **dict.fromkeys(('return_token_ids', 'stop_token_ids', 'user', 'store')),
  **dict.fromkeys(('metadata', 'parallel_tool_calls', 'reasoning_effort')),
}
RESPONSES = {
  'model': 'm',
  'instructions': 'x',
  'input': [
    {'role': 'user', 'content': [{'type': 'input_text', 'text': 'x'}]},
    {
      'type': 'function_call',
      'call_id': 'c',
      'name': 'f',
      'arguments': '{"x": "a"}',
    },
    {'type': 'function_call_output', 'call_id': 'c', 'output': 'x'},
    {'type': 'reasoning'},
  ],
  'tools': [
    {
      'type': 'function',
      'name': 'f',
      'description': 'x',
      'parameters': SCHEMA,
    }
  ],
  'text': {'format': {'type': 'text'}, 'verbosity': 'low'},
  **dict.fromkeys(('previous_response_id', 'conversation', 'background')),
  **dict.fromkeys(('prompt', 'stream', 'tool_choice', 'store', 'include')),
  **dict.fromkeys(('reasoning', 'truncation', 'max_tool_calls', 'metadata')),
}
MESSAGES = {
  'model': 'm',
  'system': [{'type': 'text', 'text': 'x'}],
  'messages': [
    {'role': 'user', 'content': 'x'},
    {
      'role': 'assistant',
      'content': [
        {'type': 'text', 'text': 'x'},
        {'type': 'tool_use', 'id': 'c', 'name': 'f', 'input': {'x': 'a'}},
      ],
    },
    {
      'role': 'user',
      'content': [{'type': 'tool_result', 'tool_use_id': 'c', 'content': 'x'}],
    },
  ],
  'tools': [{'name': 'f', 'description': 'x', 'input_schema': SCHEMA}],
  'tool_choice': {'type': 'auto'},
  'output_config': {'effort': 'low'},
  **dict.fromkeys(('stop_sequences', 'stream', 'container', 'mcp_servers')),
  **dict.fromkeys(('output_format', 'thinking', 'metadata', 'service_tier')),
}
GENERATE = {
  'model': 'm',
  'token_ids': [20, 21],
  'stream': None,
  'features': None,
  'sampling_params': {
    **SAMPLING,
    **dict.fromkeys(('stop', 'stop_token_ids', 'logprobs', 'prompt_logprobs')),
  },
}
BODIES = {
  'v1/chat/completions': CHAT | SAMPLING,
  'v1/responses': RESPONSES | SAMPLING,
  'v1/messages': MESSAGES | SAMPLING,
  'inference/v1/generate': GENERATE,
}


def places(value, at=()):
  """Where there is something in a body."""
  parts = enumerate(value) if isinstance(value, list) else ()
  parts = value.items() if isinstance(value, dict) else parts
  for key, part in parts:
    yield (*at, key)
    yield from places(part, (*at, key))


def changed(body, at, value):
  """The body with a value in a place."""
  body = copy.deepcopy(body)
  *before, last = at
  part = body
  for key in before:
    part = part[key]
  part[last] = value
  return body


async def ask(app, path, raw):
  """-> status, body"""
  received = [{'type': 'http.request', 'body': raw, 'more_body': False}]
  sent = []

  async def receive():
    if not received:
      await asyncio.Event().wait()
    return received.pop(0)

  async def send(message):
    sent.append(message)

  scope = {
    'type': 'http',
    'method': 'POST',
    'path': path,
    'raw_path': path.encode(),
    'query_string': b'',
    'headers': [(b'host', b'x'), (b'authorization', b'Bearer k')],
    'state': {'admit': lambda: True},
  }
  async with asyncio.timeout(20):
    await app.asgi(scope, receive, send)
  return sent[0]['status'], b''.join(x.get('body', b'') for x in sent[1:])


def application(format):
  generator = Stub()
  app = GatewayApp(
    generator, model='m', key='k', limits=GatewayLimits(), context=2000
  )
  talk = chat_format.bare(WORDS)
  app.serve(
    ServedModel(
      'm', generator, talk, format_of(format), message=8, context=2000
    )
  )
  return app


def check(path, raw, status, answer):
  assert status in (200, 400, 404), (path, raw, status, answer)
  text = answer.decode()
  if text.startswith('{'):
    reply = json.loads(text)
    if status != 200:
      sentence = reply['error']['message']
      assert 0 < len(sentence) < 400, (path, raw, sentence)
  else:
    events = [x for x in text.split('\n') if x.startswith('data: {')]
    assert events, (path, raw, text)
    for event in events:
      assert json.loads(event[6:]).get('type') != 'error'


# All of them, or a share that has every value and every place.
SHARES = pytest.mark.parametrize(
  'share', [pytest.param(1, marks=pytest.mark.nightly), 7]
)


@SHARES
@pytest.mark.parametrize('path', BODIES)
def test_any_value_in_any_field(path, share):
  async def play():
    app, body, statuses = application('hermes'), BODIES[path], []
    for i, (value, at) in enumerate(itertools.product(VALUES, places(body))):
      if i % share == 0:
        raw = json.dumps(changed(body, at, value)).encode()
        status, answer = await ask(app, f'/{path}', raw)
        check(path, raw, status, answer)
        statuses.append(status)
    return statuses

  statuses = asyncio.run(play())
  print(f'\n{path}: {len(statuses)} bodies')
  assert len(statuses) > 700 // share
  assert {200, 400} <= {*statuses}


@SHARES
@pytest.mark.parametrize('format', ['llama_json', 'llama_pythonic', 'tagged'])
def test_any_value_in_a_tool_or_a_call(format, share):
  """In the other formats that these are written in."""

  async def play():
    app, count = application(format), 0
    chat = {x: CHAT[x] for x in ('model', 'messages', 'tools')}
    every = [x for x in places(chat) if x[0] == 'tools' or 'tool_calls' in x]
    for i, (value, at) in enumerate(itertools.product(VALUES, every)):
      if i % share == 0:
        raw = json.dumps(changed(chat, at, value)).encode()
        answer = await ask(app, '/v1/chat/completions', raw)
        check(format, raw, *answer)
        count += 1
    return count

  assert asyncio.run(play()) > 500 // share


def test_any_value_in_a_reward():
  async def play():
    app = application('hermes')
    body = {'reward': 0.5, 'score': 0.5, 'terms': {'a': 1}}
    for value, at in itertools.product(VALUES, places(body)):
      app.add('a', made())
      raw = json.dumps(changed(body, at, value)).encode()
      check(at, raw, *await ask(app, '/s/a/reward', raw))
      await app.remove('a')

  asyncio.run(play())
