"""Models at routes without a session, such as /v1/chat/completions.

A client sends its whole conversation with every request. A conversation that
continues a message sampled here joins that message's session, so the sampled
tokens are reused exactly; any other request begins a session. The client sets
the sampling parameters, within the model's limits.
"""

import secrets
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agentrl.gateway.answers import (
  SessionAnswers,
  SharedReply,
  TokenGenerator,
)
from agentrl.gateway.request import ModelRequest, RefusedError
from agentrl.gateway.session import Sampling, Session, SessionLimits
from agentrl.rollout.engine.engine import SamplingParams
from agentrl.text.chat_format import ChatFormat
from agentrl.text.chat_messages import digest_after, digests, joined
from agentrl.text.message import AGENT
from agentrl.text.tool_calls.base import Format

CALLS = 64  # of a session; what comes later begins another one
_TOKENS = ('max_completion_tokens', 'max_output_tokens', 'max_tokens')
_HOTTEST = 100.0


class ServedModel:
  """Model with its conversations, all in one thread."""

  def __init__(
    self,
    name: str,
    generator: TokenGenerator,
    talk: ChatFormat,
    format: Format,
    *,
    message: int,
    context: int,
    keep: int = 1024,
    seconds: float = 600.0,
  ):
    """Begins without conversations.

    Args:
      name: that clients request
      message: most tokens of a message, and the default
      context: tokens of a prompt with its message
      keep: number of newest messages that conversations can continue
      seconds: how long an answer is kept for retries
    """
    self.name, self.context = name, context
    self.generator, self._seconds, self._keep = generator, seconds, keep
    self._parts = talk, format
    # Rows are not trained: only the number of calls limits a session.
    self._limits = SessionLimits(CALLS, message, context, CALLS * context)
    # By the digest of a conversation up to a sampled message, and of a body.
    self._sessions: OrderedDict[bytes, SessionAnswers] = OrderedDict()

  def answer(
    self, model_request: ModelRequest, digest: bytes, tries: str | None
  ) -> SharedReply:
    """Answers a request; see `SessionAnswers.answer`.

    Without a count of tries an equal body is a new request, since clients
    sample a conversation several times.
    """
    prefixes = model_request.prefixes
    answers = self._find(digest, prefixes) or self._begin()
    reply = answers.answer(model_request, digest, tries or '0')
    self._keep_session(digest, answers)

    def finished(task) -> None:
      if not task.cancelled() and task.exception() is None and prefixes:
        message = task.result().message
        key = digest_after(prefixes[-1][0], message)
        self._keep_session(key, answers)

    reply.task.add_done_callback(finished)
    return reply

  def _find(
    self, digest: bytes, prefixes: Sequence[tuple[bytes, bool]]
  ) -> SessionAnswers | None:
    """Finds the session of a retry, else of the longest known prefix."""
    keys = [digest]
    keys += [key for key, own in reversed(prefixes) if own]
    answers = (self._sessions.get(key) for key in keys)
    return next((x for x in answers if x and not x.full), None)

  def _begin(self) -> SessionAnswers:
    session = Session(
      *self._parts, self._limits, client_sampling(self._limits.message)
    )
    return SessionAnswers(session, self.generator, self.name, self._seconds)

  def _keep_session(self, key: bytes, answers: SessionAnswers) -> None:
    self._sessions[key] = answers
    self._sessions.move_to_end(key)
    while len(self._sessions) > self._keep:
      self._sessions.popitem(last=False)


def client_sampling(message: int) -> Sampling:
  """Samples as the client asks.

  Args:
    message: most tokens of a message, and the default
  """

  def how(number: int, requested: Mapping[str, Any]) -> SamplingParams:
    seed = _number(requested, 'seed', secrets.randbits(31), 0, 2**64 - 1)
    tokens = next((x for x in _TOKENS if x in requested), 'max_tokens')
    return SamplingParams(
      np.array([seed >> 32, seed & 0xFFFFFFFF], np.uint32),
      min(message, int(_number(requested, tokens, message, 1, 2**31))),
      _number(requested, 'temperature', 1.0, 0, _HOTTEST, float),
      max(0, _number(requested, 'top_k', 0, -1, 2**31 - 1)),  # -1 is vLLM's all
      _number(requested, 'top_p', 1.0, 1e-6, 1, float),
    )

  return how


def _number(
  requested: Mapping[str, Any],
  name: str,
  default: Any,
  low,
  high,
  kind: type = int,
) -> Any:
  """Reads a number of the request. Raises RefusedError for other values."""
  value = requested.get(name, default)
  fits = isinstance(value, int | float) and not isinstance(value, bool)
  if not fits or not low <= value <= high or kind(value) != value:
    raise RefusedError(
      f'{name} must be {_KINDS[kind]} from {low} to {high}, got'
      f' {str(value)[:40]}'
    )
  return kind(value)


_KINDS = {int: 'an integer', float: 'a number'}


def prefixes(request: ModelRequest) -> list[tuple[bytes, bool]]:
  """Digests every prefix of the conversation; True: ends with the agent."""
  whole = list(joined(request.messages))
  _, *keys = digests(request.tools, whole)
  return [(k, x.role == AGENT) for k, x in zip(keys, whole, strict=True)]
