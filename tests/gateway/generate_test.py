"""Tokens in and out, as vLLM's clients write and read them."""

import pytest

from agentrl.gateway import generate
from agentrl.gateway.request import RefusedError
from tests import errors
from tests.gateway.stub import WORDS, Stub, opened

PATH = 'inference/v1/generate'


def test_tokens_go_on_from_what_was_said():
  generator = Stub(['up', 'down'])
  with opened(generator) as (_, client, session):
    body = {'token_ids': [20, 21], 'sampling_params': {'temperature': 0.3}}
    status, first = client.post(PATH, body)
    (choice,) = first['choices']
    body['token_ids'] = [20, 21, *choice['token_ids'], 22]
    client.post(PATH, body)
  assert status == 200
  assert choice['token_ids'] == [*WORDS.encode('up'), WORDS.eot]
  content = choice['logprobs']['content']
  assert [x['token'] for x in content] == [
    f'token_id:{i}' for i in choice['token_ids']
  ]
  assert generator.asked[1][0] == body['token_ids']
  assert [t.first for t in session.graph.turns()] == [True, False]
  assert session.counts['ignored/temperature'] == 2


@pytest.mark.parametrize(
  ('body', 'sentence'),
  [
    ({}, 'token_ids'),
    ({'token_ids': [1.5]}, ''),
    ({'token_ids': [-1]}, ''),
    ({'token_ids': [True]}, ''),
    ({'token_ids': [1], 'stream': True}, 'stream true'),
    ({'token_ids': [1], 'sampling_params': {'n': 2}}, 'n 2'),
  ],
)
def test_what_is_refused(body, sentence):
  with errors.raises(RefusedError, sentence):
    generate.parse(body)
