"""Wire formats of servers that generate, by kind: tokens in and out.

  agentrl  experiments.serve --updates   whole weights, version in each answer
  vllm     /inference/v1/generate        adapters, whose name is the version
  sglang   /generate                     whole weights or adapters

Bodies are made and read here; nothing is sent.
"""

import json
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from agentrl.rollout.engine.engine import SamplingParams
from agentrl.service.base import ServiceFault

Body = dict[str, Any]
Request = tuple[str, Body]  # path below the address, and its JSON


class RemoteMessage(NamedTuple):
  """Tokens that a server sampled."""

  ids: list[int]
  logp: list[float]  # nats
  prompt: int | list[int] | None  # tokens that it read, or how many
  version: str  # of its weights; '': it does not say


class Published(NamedTuple):
  """A version of weights, as a server is told of it."""

  path: str  # folder that the server can read
  number: int
  adapter: str  # its name on the server; '': whole weights


class WireFormat(NamedTuple):
  """How one kind of server is spoken to.

  adapters, whole: what it can be given
  generate: (model, context, how, end of turn, published) -> request
  parse: the answer -> the message; raises ServiceFault
  update: published -> request that has it loaded
  unload: (name of an adapter) -> request that drops it
  """

  adapters: bool
  whole: bool
  generate: Callable[
    [str, Sequence[int], SamplingParams, int, Published], Request
  ]
  parse: Callable[[Any], RemoteMessage]
  update: Callable[[Published], Request]
  unload: Callable[[str], Request]


def parse(wire_format: WireFormat, data: bytes) -> RemoteMessage:
  """Returns the message in the body of an answer.

  Raises:
    ServiceFault: there are no tokens in it, or no log-prob for each.
  """
  try:
    message = wire_format.parse(json.loads(data))
    good = all(math.isfinite(x) for x in message.logp)
    good = good and len(message.ids) == len(message.logp) > 0
    good = good and all(type(x) is int and x >= 0 for x in message.ids)
  except (
    ValueError,
    ArithmeticError,
    RecursionError,
    LookupError,
    TypeError,
    AttributeError,
  ) as error:
    raise ServiceFault(
      f'the server gives no tokens with log-probs ({type(error).__name__}:'
      f' {error}); it must return token ids and the log-prob of each'
    ) from None
  if not good:
    raise ServiceFault(
      f'the server gives {len(message.ids)} tokens and {len(message.logp)}'
      ' finite log-probs; it must return one for each'
    )
  return message


def seed_of(how: SamplingParams) -> int:
  """Returns the key as one number, in [0, 2⁶⁴)."""
  return int(how.key[0]) << 32 | int(how.key[1])


def _generate(
  model: str,
  context: Sequence[int],
  how: SamplingParams,
  eot: int,
  published: Published,
) -> Request:
  params: Body = {
    'temperature': how.temperature,
    'top_p': how.top_p,
    'max_tokens': how.budget,
    'seed': seed_of(how),
    'stop_token_ids': [eot],
    'logprobs': 1,
    'skip_special_tokens': False,
  }
  body: Body = {'model': published.adapter or model, 'token_ids': list(context)}
  return 'inference/v1/generate', body | {'sampling_params': params}


def _generate_vllm(model, context, how, eot, published) -> Request:
  path, body = _generate(model, context, how, eot, published)
  body['sampling_params']['seed'] &= 2**63 - 1  # it is signed there
  return path, body


def _parse(body: Any) -> RemoteMessage:
  (choice,) = body['choices']
  content = choice['logprobs']['content']
  prompt = body.get('prompt_token_ids')
  if prompt is None:
    prompt = (body.get('usage') or {}).get('prompt_tokens')
  return RemoteMessage(
    ids=choice['token_ids'],
    logp=[float(x['logprob']) for x in content],
    prompt=prompt,
    version=str(body.get('weight_version') or ''),
  )


def _generate_sglang(model, context, how, eot, published) -> Request:
  params: Body = {
    'temperature': how.temperature,
    'top_p': how.top_p,
    'max_new_tokens': how.budget,
    'stop_token_ids': [eot],
    'sampling_seed': seed_of(how) & 0x7FFFFFFF,
    'skip_special_tokens': False,
  }
  body: Body = {'input_ids': list(context), 'sampling_params': params}
  body['return_logprob'] = True
  if published.adapter:
    body['lora_path'] = published.adapter
  return 'generate', body


def _parse_sglang(body: Any) -> RemoteMessage:
  about = body['meta_info']
  pairs = about['output_token_logprobs']
  return RemoteMessage(
    ids=[x[1] for x in pairs],
    logp=[float(x[0]) for x in pairs],
    prompt=about.get('prompt_tokens'),
    version=str(about.get('weight_version') or ''),
  )


def _update(published: Published) -> Request:
  body = {'path': published.path, 'version': published.number}
  return 'update_weights', body


def _update_vllm(published: Published) -> Request:
  return 'v1/load_lora_adapter', _adapter(published)


def _update_sglang(published: Published) -> Request:
  if published.adapter:
    return 'load_lora_adapter', _adapter(published)
  return 'update_weights_from_disk', {
    'model_path': published.path,
    'weight_version': str(published.number),
    'flush_cache': True,
  }


def _adapter(published: Published) -> Body:
  return {'lora_name': published.adapter, 'lora_path': published.path}


def _unload_nothing(name: str) -> Request:
  del name  # it takes no adapters
  return '', {}


def _unload_vllm(name: str) -> Request:
  return 'v1/unload_lora_adapter', {'lora_name': name}


def _unload_sglang(name: str) -> Request:
  return 'unload_lora_adapter', {'lora_name': name}


WIRE_FORMATS: dict[str, WireFormat] = {
  'agentrl': WireFormat(
    adapters=False,
    whole=True,
    generate=_generate,
    parse=_parse,
    update=_update,
    unload=_unload_nothing,
  ),
  'vllm': WireFormat(
    adapters=True,
    whole=False,
    generate=_generate_vllm,
    parse=_parse,
    update=_update_vllm,
    unload=_unload_vllm,
  ),
  'sglang': WireFormat(
    adapters=True,
    whole=True,
    generate=_generate_sglang,
    parse=_parse_sglang,
    update=_update_sglang,
    unload=_unload_sglang,
  ),
}
