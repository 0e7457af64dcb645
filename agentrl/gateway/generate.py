"""Dialect of vLLM's /inference/v1/generate: tokens in, tokens out."""

from collections.abc import Mapping
from typing import Any

from agentrl.gateway import chat
from agentrl.gateway import request as lib
from agentrl.gateway.request import ModelReply, ModelRequest

_UNDERSTOOD = ('model', 'token_ids', 'sampling_params', 'stream')
_PARAMS = ('logprobs', 'stop_token_ids', 'stop', 'n', 'skip_special_tokens')

error = chat.error


def parse(body: Mapping[str, Any]) -> ModelRequest:
  lib.refuse(body, {'stream': (False,), 'features': ({}, [])})
  params = lib.field(body, 'sampling_params', dict, {})
  lib.refuse(params, {'n': (1,), 'prompt_logprobs': (0,)})
  ignored = lib.ignored(body, _UNDERSTOOD) + lib.ignored(params, _PARAMS)
  tokens = lib.token_ids(body, 'token_ids')
  if not tokens:
    raise lib.RefusedError('token_ids is empty; send at least one token')
  return ModelRequest(
    tokens=tokens,
    stops=lib.stops_of(params.get('stop'), 'sampling_params.stop'),
    stop_tokens=lib.token_ids(params, 'stop_token_ids'),
    logprobs=True,
    token_ids=True,
    ignored=ignored,
    sampling=lib.sampling_fields(params),
  )


def reply(request: ModelRequest, reply: ModelReply) -> dict[str, Any]:
  choice = {
    'index': 0,
    'token_ids': list(reply.completion.ids),
    'finish_reason': reply.finish,
    'logprobs': chat.logprobs(reply),
  }
  return {
    'request_id': reply.id,
    'choices': [choice],
    'prompt_token_ids': list(reply.prompt),
    'usage': chat.usage(reply),
    'weight_version': str(reply.completion.version[-1]),
  }
