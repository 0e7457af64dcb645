"""Bodies of requests as servers of generation document them."""

import json

import numpy as np
import pytest

from agentrl.rollout.engine.engine import SamplingParams
from agentrl.rollout.remote import wire
from agentrl.service.base import ServiceFault
from tests import hostile

HOW = SamplingParams(np.array([2**31 + 1, 7], np.uint32), 9, 0.5)
WHOLE = wire.Published('/weights/v000003', 3, '')
ADAPTER = WHOLE._replace(adapter='policy-v000003')


def test_requests_of_tokens():
  seed = (2**31 + 1) * 2**32 + 7
  for kind, sent in (('agentrl', seed), ('vllm', seed - 2**63)):
    path, body = wire.WIRE_FORMATS[kind].generate('m', (5, 6), HOW, 2, WHOLE)
    assert path == 'inference/v1/generate'
    assert (body['model'], body['token_ids']) == ('m', [5, 6])
    params = body['sampling_params']
    assert params['seed'] == sent
    assert params['stop_token_ids'] == [2]
    assert (params['max_tokens'], params['temperature']) == (9, 0.5)
  _, body = wire.WIRE_FORMATS['vllm'].generate('m', (5,), HOW, 2, ADAPTER)
  assert body['model'] == 'policy-v000003'
  path, body = wire.WIRE_FORMATS['sglang'].generate('m', (5,), HOW, 2, ADAPTER)
  assert path == 'generate'
  assert (body['input_ids'], body['return_logprob']) == ([5], True)
  assert body['lora_path'] == 'policy-v000003'
  assert 0 <= body['sampling_params']['sampling_seed'] < 2**31


def test_requests_of_weights():
  update = {kind: x.update for kind, x in wire.WIRE_FORMATS.items()}
  own = {'path': '/weights/v000003', 'version': 3}
  assert update['agentrl'](WHOLE) == ('update_weights', own)
  path, body = update['sglang'](WHOLE)
  assert path == 'update_weights_from_disk'
  assert body['model_path'] == '/weights/v000003'
  assert body['weight_version'] == '3'
  adapter = {'lora_name': 'policy-v000003', 'lora_path': '/weights/v000003'}
  assert update['vllm'](ADAPTER) == ('v1/load_lora_adapter', adapter)
  assert update['sglang'](ADAPTER) == ('load_lora_adapter', adapter)
  dropped = wire.WIRE_FORMATS['vllm'].unload('policy-v000003')
  assert dropped[1] == {'lora_name': 'policy-v000003'}


ANSWERS = {
  'agentrl': {
    'choices': [
      {
        'token_ids': [5, 2],
        'logprobs': {'content': [{'logprob': -0.5}, {'logprob': -1.0}]},
      }
    ],
    'prompt_token_ids': [1],
    'weight_version': '3',
  },
  'sglang': {
    'output_ids': [5, 2],
    'meta_info': {
      'output_token_logprobs': [[-0.5, 5, None], [-1.0, 2, None]],
      'prompt_tokens': 1,
      'weight_version': '3',
    },
  },
}


@pytest.mark.parametrize('kind', ANSWERS)
def test_every_answer_is_tokens_or_a_fault(kind):
  form = wire.WIRE_FORMATS[kind]
  assert wire.parse(form, json.dumps(ANSWERS[kind]).encode()).ids == [5, 2]
  for place, value, text in hostile.mutations(ANSWERS[kind]):
    try:
      made = wire.parse(form, text.encode())
    except ServiceFault:
      continue
    assert all(type(x) is int and x >= 0 for x in made.ids), (place, value)
    assert np.all(np.isfinite(made.logp)), (place, value)
