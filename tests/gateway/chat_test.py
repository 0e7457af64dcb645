"""Chat completions: what is understood, refused, and how replies look."""

import pytest

from agentrl.gateway import chat, generate, messages, responses
from agentrl.gateway.request import ModelRequest, RefusedError
from agentrl.text.chat_messages import ChatMessage
from tests import errors
from tests.gateway.stub import REPLY, USE, WORDS, Stub, opened, user


def test_messages_and_tools():
  call = {'id': 'c1', 'type': 'function'}
  call['function'] = {'name': 'find', 'arguments': '{ "x": 1 }'}
  function = {'name': 'find', 'parameters': {'type': 'object'}}
  request = chat.parse(
    {
      'messages': [
        {'role': 'developer', 'content': 'be brief'},
        user([{'type': 'text', 'text': 'a'}, {'type': 'text', 'text': 'b'}]),
        {'role': 'assistant', 'content': None, 'tool_calls': [call]},
        {'role': 'tool', 'content': 'one', 'tool_call_id': 'c1'},
      ],
      'tools': [{'type': 'function', 'function': function}],
      'tool_choice': 'required',
      'stop': 'END',
      'temperature': 0.2,
      'n': 1,
      'response_format': {'type': 'text'},
    }
  )
  assert request.messages == [
    ChatMessage('system', 'be brief'),
    ChatMessage('user', 'ab'),
    ChatMessage('assistant', '', (USE,)),
    ChatMessage('tool', 'one', answers='c1'),
  ]
  assert request.tools == [('find', '', {'type': 'object'})]
  assert request.stops == ['END']
  assert request.ignored == ['temperature', 'tool_choice']
  assert chat.parse({'messages': [], 'tool_choice': 'none'}).tools == []


@pytest.mark.parametrize(
  ('fields', 'sentence'),
  [
    ({'n': 2}, 'n 2'),
    ({'response_format': {'type': 'json_object'}}, 'response_format'),
    ({'functions': [{}]}, 'functions'),
    ({'messages': [{'role': 'robot'}]}, 'messages 0 role robot'),
    ({'messages': 'hello'}, 'messages'),
    (
      {'messages': [user([{'type': 'image_url', 'image_url': {}}])]},
      'messages 0 type image_url',
    ),
    ({'tools': [{'type': 'web_search'}]}, 'type web_search'),
    ({'tools': [{'type': 'function'}]}, 'tools 0'),
    ({'stream': 'yes'}, 'stream'),
  ],
)
def test_what_is_refused_by_name(fields, sentence):
  with errors.raises(RefusedError, sentence):
    chat.parse({'messages': [user('x')], **fields})


def test_a_reply():
  plain = chat.reply(ModelRequest(), REPLY)
  (choice,) = plain['choices']
  assert choice['finish_reason'] == 'tool_calls'
  assert choice['message']['tool_calls'][0]['function'] == {
    'name': 'find',
    'arguments': '{"x":1}',
  }
  assert choice['logprobs'] is None
  assert plain['usage'] == {
    'prompt_tokens': 2,
    'completion_tokens': 3,
    'total_tokens': 5,
  }
  assert 'prompt_token_ids' not in plain
  alone = chat.reply(ModelRequest(), REPLY._replace(text=''))
  assert alone['choices'][0]['message']['content'] is None
  whole = chat.reply(ModelRequest(logprobs=True, token_ids=True), REPLY)
  assert whole['prompt_token_ids'] == [4, 5]
  assert whole['choices'][0]['token_ids'] == [9, 10, 2]
  content = whole['choices'][0]['logprobs']['content']
  assert [x['logprob'] for x in content] == REPLY.completion.logp


def test_a_stream_says_what_the_reply_says():
  request = ModelRequest(logprobs=True, token_ids=True, usage=True)
  chunks = [data for _, data in chat.events(request, REPLY)]
  *first, last = chunks
  assert (last['choices'], last['usage']) == ([], chat.usage(REPLY))
  deltas = [x['choices'][0]['delta'] for x in first]
  assert ''.join(x.get('content', '') for x in deltas) == 'so'
  assert [x['tool_calls'][0]['id'] for x in deltas if 'tool_calls' in x] == [
    'c1'
  ]
  assert first[0]['prompt_token_ids'] == [4, 5]
  assert first[-1]['choices'][0]['token_ids'] == [9, 10, 2]
  assert first[-1]['choices'][0]['finish_reason'] == 'tool_calls'
  assert len(chat.events(ModelRequest(), REPLY)) == len(chunks) - 1


def test_stop_tokens_end_a_message():
  comma = WORDS.encode(',')[0]
  with opened(Stub(['so, more'] * 2), calls=9) as (_, client, session):
    fields = {'stop_token_ids': [5, comma], 'return_token_ids': True}
    (choice,) = client.chat([user('x')], **fields)['choices']
    assert choice['token_ids'] == WORDS.encode('so,')
    assert choice['message']['content'] == 'so'
    assert (choice['finish_reason'], choice['stop_reason']) == ('stop', comma)
    body = {'messages': [user('x')], **fields, 'stream': True}
    _, text = client.send('v1/chat/completions', body)
    assert f'"stop_reason":{comma}' in text
    assert not [x for x in session.counts if x.startswith('ignored')]
    for wrong in ([True], ['x'], [-1], [1.5], 'x', {}, 5, [None]):
      body = {'messages': [user('x')], 'stop_token_ids': wrong}
      status, reply = client.post('v1/chat/completions', body)
      assert status == 400
      assert 'stop_token_ids' in reply['error']['message']


# Of OpenAI, Anthropic and vLLM; what is understood has tests of its own.
FIELDS = (
  'audio', 'frequency_penalty', 'logit_bias', 'max_completion_tokens',
  'metadata', 'parallel_tool_calls', 'prediction', 'presence_penalty',
  'prompt_cache_key', 'reasoning_effort', 'safety_identifier', 'seed',
  'service_tier', 'store', 'temperature', 'top_logprobs', 'top_p', 'user',
  'verbosity', 'web_search_options', 'best_of', 'use_beam_search', 'top_k',
  'min_p', 'repetition_penalty', 'length_penalty', 'stop_token_ids',
  'include_stop_str_in_output', 'ignore_eos', 'min_tokens', 'echo',
  'skip_special_tokens', 'spaces_between_special_tokens', 'bad_words',
  'truncate_prompt_tokens', 'prompt_logprobs', 'allowed_token_ids',
  'add_generation_prompt', 'continue_final_message', 'chat_template',
  'add_special_tokens', 'documents', 'structured_outputs', 'priority',
  'guided_json', 'request_id', 'cache_salt', 'kv_transfer_params', 'stop',
  'container', 'context_management', 'mcp_servers', 'thinking', 'system',
  'stop_sequences', 'background', 'conversation', 'include', 'prompt',
  'instructions', 'max_output_tokens', 'max_tool_calls', 'truncation',
  'previous_response_id', 'reasoning', 'text', 'output_format', 'inputs',
)  # fmt: skip
# Nothing could come of these here: no reply is kept, no text is made.
SILENT = {'store', 'include', 'skip_special_tokens'}


@pytest.mark.parametrize('dialect', [chat, messages, responses, generate])
def test_no_field_is_ignored_without_being_counted(dialect):
  bodies = ({'messages': [user('x')]}, {'input': 'x'}, {'token_ids': [9]})
  whole = {k: v for body in bodies for k, v in body.items()}
  plain = dialect.parse(whole)
  for name in FIELDS:
    part = {name: ['x']}
    if dialect is generate:
      part = {'sampling_params': part}
    try:
      request = dialect.parse(whole | part)
    except RefusedError:
      continue
    counted = {*request.ignored} - {*plain.ignored}
    changed = request._replace(ignored=(), sampling={}) != plain._replace(
      ignored=(), sampling={}
    )
    assert counted or changed or name in SILENT, name


def test_over_loopback_an_error_has_the_form_of_the_client():
  with opened() as (_, client, _session):
    body = {'messages': [user('x')], 'n': 3}
    status, reply = client.post('v1/chat/completions', body)
  assert status == 400
  assert reply['error']['type'] == 'invalid_request_error'
  assert reply['error']['code'] == 'unsupported_parameter'
