"""Unmodified clients: what they send is understood, what they repeat found.

Every example plays against a generator that calls the tool and then answers.
"""

import asyncio
import importlib
import json
import types

import pytest

from tests import errors
from tests.gateway import stub
from tests.gateway.stub import WORDS, Stub

pytestmark = pytest.mark.slow  # seconds to import each
CALL = (
  '<tool_call>\n{"name": "add", "arguments": {"a": 2, "b": 3.5}}\n</tool_call>'
)
TASK = {'question': 'What is 2 + 3.5?', 'answer': '5.5'}
EXAMPLES = {
  'openai_chat': 'openai',
  'openai_responses': 'openai',
  'anthropic_messages': 'anthropic',
  'langgraph_agent': 'langchain',
  'openai_agents': 'agents',
  'pydantic_ai_agent': 'pydantic_ai',
  'smolagents_agent': 'smolagents',
}
FINAL = (
  '<tool_call>\n{"name": "final_answer", "arguments": '
  '{"answer": "It is 5.5"}}\n</tool_call>'
)


def opened(generator, **fields):
  sizes = dict(message=300, context=30_000, row=90_000) | fields
  return stub.opened(generator, **sizes)


def example(name, client):
  pytest.importorskip(client)
  return importlib.import_module(f'examples.{name}').play


def check(session, rows):
  """Prompts and messages are beginnings of rows, and each is trained once."""
  turns, graph = session.graph.turns(), session.graph
  assert sum(x.first for x in turns) == rows
  assert sorted(x.call for x in turns) == sorted(session.completions)
  for turn in turns:
    assert (
      list(graph.calls[turn.call].ids) == session.completions[turn.call].ids
    )
  assert bool(session.counts['foreign']) == (rows > 1)


@pytest.mark.parametrize('name', EXAMPLES)
def test_a_tool_is_called_and_answered(name):
  play = example(name, EXAMPLES[name])
  rewrites = name == 'smolagents_agent'  # its history, and answers by a tool
  last = FINAL if rewrites else 'It is 5.5'
  generator = Stub([f'so {CALL}', f'{CALL}\n{CALL}', last])
  with opened(generator) as (gateway, client, session):
    play(client.at.geturl(), gateway.key, TASK)
  assert session.reward == (1.0, 1.0, {})
  check(session, rows=3 if rewrites else 1)
  if rewrites:
    return
  last = WORDS.decode(generator.asked[-1][0])
  assert last.count('<tool_response>\n5.5\n</tool_response>') == 3
  assert '"name": "add", "description": "Adds two numbers."' in last


def test_a_stream_is_read():
  play = example('openai_stream', 'openai')
  with opened(Stub(['no', 'It is 5.5'])) as (gateway, client, session):
    play(client.at.geturl(), gateway.key, TASK)
  assert session.reward == (1.0, 1.0, {})
  check(session, rows=1)


def test_other_streams_are_read():
  openai = pytest.importorskip('openai')
  anthropic = pytest.importorskip('anthropic')
  generator = Stub([f'so {CALL}'] * 3)
  tool = {'name': 'add', 'input_schema': {'type': 'object'}}
  with opened(generator) as (gateway, client, _session):
    address = client.at.geturl()
    claude = anthropic.Anthropic(base_url=address, api_key=gateway.key)
    with claude.messages.stream(
      model='m',
      max_tokens=9,
      messages=[{'role': 'user', 'content': 'x'}],
      tools=[tool],
    ) as stream:
      text, use = stream.get_final_message().content
    assert (text.text, use.input) == ('so', {'a': 2, 'b': 3.5})
    gpt = openai.OpenAI(base_url=f'{address}/v1', api_key=gateway.key)
    function = {'type': 'function', 'name': 'add', 'parameters': {}}
    with gpt.responses.stream(model='m', input='x', tools=[function]) as stream:
      message, call = stream.get_final_response().output
    assert message.content[0].text == 'so'
    assert json.loads(call.arguments) == {'a': 2, 'b': 3.5}
    function = {'type': 'function', 'function': {'name': 'add'}}
    with gpt.chat.completions.stream(
      model='m', messages=[{'role': 'user', 'content': 'x'}], tools=[function]
    ) as stream:
      choice = stream.get_final_completion().choices[0]
    assert choice.finish_reason == 'tool_calls'
    assert choice.message.tool_calls[0].function.name == 'add'


def test_errors_are_those_of_the_clients():
  openai = pytest.importorskip('openai')
  anthropic = pytest.importorskip('anthropic')
  ask = {'model': 'm', 'messages': [{'role': 'user', 'content': 'x'}]}
  with opened(None, calls=0) as (gateway, client, session):
    address = client.at.geturl()
    gpt = openai.OpenAI(base_url=f'{address}/v1', api_key=gateway.key)
    with errors.raises(openai.BadRequestError, '0'):
      gpt.chat.completions.create(**ask)
    with errors.raises(openai.BadRequestError, 'n 2'):
      gpt.chat.completions.create(**ask, n=2)
    wrong = openai.OpenAI(base_url=f'{address}/v1', api_key='x')
    with pytest.raises(openai.AuthenticationError):
      wrong.chat.completions.create(**ask)
    claude = anthropic.Anthropic(base_url=address, api_key=gateway.key)
    with errors.raises(anthropic.BadRequestError, '0'):
      claude.messages.create(**ask, max_tokens=9)
    assert [x.id for x in gpt.models.list()] == ['policy']
  assert not session.counts['retries']


def test_the_client_of_verifiers_gets_tokens():
  """Its own checks of ids and log-probs pass."""
  client_lib = pytest.importorskip('renderers.client', exc_type=ImportError)
  openai = pytest.importorskip('openai')

  class Renderer:
    is_prefix_stable = True

    def get_stop_token_ids(self):
      return [WORDS.eot]

    def parse_response(self, ids, **_):
      return types.SimpleNamespace(
        content=WORDS.decode(ids),
        reasoning_content=None,
        reasoning_complete=True,
        tool_calls=[],
      )

  async def play(address, key):
    client = openai.AsyncOpenAI(base_url=f'{address}/v1', api_key=key)
    ids, replies = [20, 21], []
    for _ in range(2):
      reply = await client_lib.generate(
        client=client,
        renderer=Renderer(),
        messages=[],
        model='policy',
        prompt_ids=ids,
      )
      ids = [*ids, *reply['completion_ids'], 22]
      replies.append(reply)
    return replies

  with opened(Stub(['up', 'down'])) as (gateway, client, session):
    address = client.at.geturl()
    one, two = asyncio.run(play(address, gateway.key))
  assert one['completion_ids'] == [*WORDS.encode('up'), WORDS.eot]
  assert one['completion_logprobs'] == [-0.5, -1.5]
  assert two['finish_reason'] == 'stop'
  check(session, rows=1)
