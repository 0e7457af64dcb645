"""Routes of the gateway: authentication, limits and answers.

/s/<session>/v1/models                GET
/s/<session>/v1/chat/completions      OpenAI
/s/<session>/v1/responses             OpenAI
/s/<session>/v1/messages              Anthropic
/s/<session>/inference/v1/generate    vLLM, tokens
/s/<session>/reward                   {"reward": 1.0, "score": 1.0,
                                       "terms": {"format": 0.5}}

Without /s/<session> the first five address a served model by name. If weights
may be updated there is

/update_weights                       {"path": FOLDER, "version": 3}
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from agentrl.gateway import (
  body,
  chat,
  generate,
  json_text,
  messages,
  responses,
)
from agentrl.gateway.answers import SessionAnswers, SharedReply, TokenGenerator
from agentrl.gateway.guard import Guard
from agentrl.gateway.request import (
  Dialect,
  ModelRequest,
  RefusedError,
  StreamingDialect,
  field,
  parse_body,
)
from agentrl.gateway.served import ServedModel, prefixes
from agentrl.gateway.session import Session
from agentrl.gateway.updates import WeightUpdates

DIALECTS: dict[str, Dialect] = {
  'v1/chat/completions': chat,
  'v1/responses': responses,
  'v1/messages': messages,
  'inference/v1/generate': generate,
}
# Of the clients of OpenAI and Anthropic: tries before this one.
RETRY = 'x-stainless-retry-count'


class GatewayLimits(NamedTuple):
  """Limits of the server."""

  body: int = 8 << 20  # bytes
  seconds: float = 30.0  # until a request is there
  connections: int = 1024  # that have shown the key, and as many that have not
  headers: float = 3.0  # seconds until a stream begins without a message
  alive: float = 5.0  # seconds between two comments of a stream
  replay: float = 600.0  # seconds that a reply is there for a retry


class GatewayApp:
  """Sessions and models by name, served as an ASGI application."""

  def __init__(
    self,
    generator: TokenGenerator,
    *,
    model: str,
    key: str,
    limits: GatewayLimits,
    context: int,
    host: str = '127.0.0.1',
    update: Callable[[str, int], None] | None = None,
  ):
    """Begins without sessions and models.

    Args:
      key: required of every client; '': none, see `Guard`
      host: to listen on
      context: tokens of a conversation
      update: loads weights from a folder, with their version; raises
        ValueError; None: updates are refused
    """
    self._generator, self._name = generator, model
    self._guard = Guard(key, host)
    self._limits, self._context = limits, context
    self._sessions: dict[str, SessionAnswers] = {}
    self._served: dict[str, ServedModel] = {}
    routes = []
    for at in ('/s/{session}/', '/'):
      routes.append(Route(f'{at}v1/models', self._models))
      for path, dialect in DIALECTS.items():
        routes.append(
          Route(f'{at}{path}', self._endpoint(dialect), methods=_POST)
        )
    routes.append(Route('/s/{session}/reward', self._reward, methods=_POST))
    self._updates = WeightUpdates(update) if update else None
    if update is not None:
      routes.append(Route('/update_weights', self._weights, methods=_POST))
    self.asgi = Starlette(routes=routes)

  def add(self, name: str, session: Session) -> None:
    self._sessions[name] = SessionAnswers(
      session, self._generator, self._name, self._limits.replay
    )

  def serve(self, model: ServedModel) -> None:
    self._served[model.name] = model

  async def remove(self, name: str) -> Session:
    """Finishes a session and cancels its pending generations."""
    answers = self._sessions.pop(name)
    answers.close()
    return answers.session

  # Requests.

  def _session(self, request: Request) -> SessionAnswers:
    """Finds the session; RefusedError for a wrong key or an unknown one."""
    self._guard.check(request)
    name = request.path_params['session']
    answers = self._sessions.get(name)
    if answers is None:
      raise RefusedError(
        f'session {name[:80]!r} does not exist or has finished', status=404
      )
    return answers

  def _model(self, body: Mapping[str, Any]) -> ServedModel:
    """Finds the model that a request names, or the only one.

    Raises:
      RefusedError: the name is unknown.
    """
    name = field(body, 'model', str, '')
    if not name and len(self._served) == 1:
      return next(iter(self._served.values()))
    if name not in self._served:
      there = ', '.join(self._served) or 'none; calls belong to sessions'
      raise RefusedError(
        f'model must be one of {there}, got {name[:80]!r}',
        status=404,
        code='model_not_found',
      )
    return self._served[name]

  async def _body(self, request: Request) -> bytes:
    limits = self._limits
    return await body.read(request, limits.body, limits.seconds)

  async def _models(self, request: Request) -> Response:
    try:
      if 'session' in request.path_params:
        self._session(request)
        models = {self._name: self._context}
      else:
        self._guard.check(request)
        models = {name: x.context for name, x in self._served.items()}
    except RefusedError as error:
      return _refusal(chat, error)
    about = {'object': 'model', 'owned_by': 'agentrl', 'created': 0}
    data = [{'id': x, 'max_model_len': n, **about} for x, n in models.items()]
    return _Answer({'object': 'list', 'data': data})

  async def _reward(self, request: Request) -> Response:
    try:
      session = self._session(request).session
      raw = await self._body(request)
      reward = session.post(await _beside(raw, parse_body, raw))
    except RefusedError as error:
      return _refusal(chat, error)
    return _Answer(reward._asdict())

  async def _weights(self, request: Request) -> Response:
    """Updates weights; requests in flight wait meanwhile."""
    assert self._updates is not None
    try:
      self._guard.check(request)
      raw = await self._body(request)
      new = await _beside(raw, parse_body, raw)
      version = await self._updates.take(new)
    except RefusedError as error:
      return _refusal(chat, error)
    return _Answer({'version': version})

  def _endpoint(self, dialect: Dialect):
    async def endpoint(request: Request) -> Response:
      try:
        answers: SessionAnswers | ServedModel | None = None
        if 'session' in request.path_params:
          answers = self._session(request)
        else:
          self._guard.check(request)
        raw = await self._body(request)
        parsed, model_request, digest = await _beside(
          raw, _read, dialect, raw, request.scope['path'], answers is None
        )
        answers = answers or self._model(parsed)
        tries = request.headers.get(RETRY)
        answer = answers.answer(model_request, digest, tries)
        return await self._respond(request, dialect, model_request, answer)
      except RefusedError as error:
        return _refusal(dialect, error)
      except ClientDisconnect:
        return Response(status_code=499)

    return endpoint

  # Answers.

  async def _respond(
    self,
    request: Request,
    dialect: Dialect,
    model_request: ModelRequest,
    answer: SharedReply,
  ) -> Response:
    """Waits for the response; the client may disconnect meanwhile."""
    gone = asyncio.create_task(_disconnected(request))
    wait = {answer.task, gone}
    answer.waiting += 1
    try:
      await asyncio.wait(
        wait,
        timeout=self._limits.headers if model_request.stream else None,
        return_when=asyncio.FIRST_COMPLETED,
      )
    finally:
      answer.waiting -= 1
      gone.cancel()
    if answer.task.done():
      reply = answer.result()
      if not model_request.stream:
        return _Answer(dialect.reply(model_request, reply))
    elif gone.done() and not gone.cancelled():
      answer.leave()
      return Response(status_code=499)
    assert isinstance(dialect, StreamingDialect)  # others refuse to stream
    stream = self._stream(dialect, model_request, answer)
    return StreamingResponse(stream, media_type='text/event-stream')

  async def _stream(
    self,
    dialect: StreamingDialect,
    model_request: ModelRequest,
    answer: SharedReply,
  ) -> AsyncIterator[bytes]:
    """Streams comments while generating, then the whole reply as events."""
    answer.waiting += 1
    try:
      while not answer.task.done():
        await asyncio.wait({answer.task}, timeout=self._limits.alive)
        if not answer.task.done():
          yield b': alive\n\n'
      try:
        events = dialect.events(model_request, answer.result())
      except RefusedError as error:
        events = [('error', dialect.error(error))]
      yield b''.join(_event(*x) for x in events)
      if dialect is chat:
        yield b'data: [DONE]\n\n'
    finally:
      answer.waiting -= 1
      answer.leave()


_POST = ['POST']
_FEW = 16 << 10  # bytes that are read sooner than a thread takes them


async def _beside(raw: bytes, function: Callable, *args: Any) -> Any:
  """Calls function(*args), in a thread for a large body: others do not wait."""
  if len(raw) > _FEW:
    return await asyncio.to_thread(function, *args)
  return function(*args)


def _read(
  dialect: Dialect, raw: bytes, path: str, served: bool
) -> tuple[Mapping[str, Any], ModelRequest, bytes]:
  """Parses a body into JSON, a request, and a digest to find it by.

  Has no side effects and may run in any thread.
  """
  body = parse_body(raw)
  model_request = dialect.parse(body)
  if served:
    model_request = model_request._replace(prefixes=prefixes(model_request))
  digest = hashlib.sha256(path.encode() + b'\0' + raw)
  return body, model_request, digest.digest()


async def _disconnected(request: Request) -> None:
  """Returns when the client has disconnected; its body was read before."""
  while (await request.receive())['type'] != 'http.disconnect':
    pass


def _event(name: str, data: Any) -> bytes:
  head = f'event: {name}\n' if name else ''
  return f'{head}data: '.encode() + json_text.dumps(data) + b'\n\n'


class _Answer(JSONResponse):
  """JSON response."""

  def render(self, content: Any) -> bytes:
    return json_text.dumps(content)


def _refusal(dialect: Dialect, error: RefusedError) -> Response:
  headers = {'connection': 'close'} if error.status in (408, 413) else {}
  return _Answer(dialect.error(error), error.status, headers)
