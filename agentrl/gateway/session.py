"""Session of the gateway: one attempt of a program, as a tree of calls.

The attempt fixes how messages are sampled: key by number, temperature, limits.
What a session no longer allows is refused in a way that clients do not retry.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from agentrl.gateway.request import (
  SAMPLING,
  ModelReply,
  ModelRequest,
  RefusedError,
)
from agentrl.gateway.rewards import Reward, reward_of
from agentrl.rollout.engine import engine
from agentrl.rollout.engine.engine import Completion, SamplingParams
from agentrl.text import chat_format
from agentrl.text.chat_format import ChatFormat
from agentrl.text.chat_messages import ToolUse, canonical_json
from agentrl.text.message_graph import CallPrompt, MessageGraph
from agentrl.text.tool_calls.base import Call, Format, ToolDescription
from agentrl.types import Status

Stop = Callable[[Sequence[int]], int]
# (number of a call, what its client asks for) -> how its message is sampled.
Sampling = Callable[[int, Mapping[str, Any]], SamplingParams]
_CHARACTERS = 64  # of a token, at most: longer texts are not even encoded
_USUAL = 8  # of a token; longer texts are first encoded part by part
_PART = 1 << 16  # characters


class SessionLimits(NamedTuple):
  """Limits and sampling parameters of a session."""

  calls: int  # of the model
  message: int  # tokens of a message with its end of turn
  context: int  # tokens of a prompt with its message
  row: int  # tokens of all rows of the session together
  temperature: float = 1.0
  top_k: int = 0
  top_p: float = 1.0
  stop: Stop | None = None


def attempt_sampling(limits: SessionLimits, keys: np.ndarray) -> Sampling:
  """Samples with the attempt's parameters, whatever clients ask for.

  Args:
    keys: [calls, 2] u32, of the messages by number
  """

  def how(number: int, requested: Mapping[str, Any]) -> SamplingParams:
    return SamplingParams(
      keys[number],
      limits.message,
      limits.temperature,
      limits.top_k,
      limits.top_p,
      limits.stop,
    )

  return how


class PendingCall(NamedTuple):
  """Admitted call."""

  number: int
  prompt: CallPrompt
  how: SamplingParams
  request: ModelRequest
  given: Completion | None = None  # its message, which is not sampled


class Session:
  """Calls, reward and counts of an attempt, all in one thread."""

  def __init__(
    self,
    talk: ChatFormat,
    format: Format,
    limits: SessionLimits,
    sampling: Sampling,
    given: Callable[[int], Completion | None] = lambda number: None,
  ):
    """Begins without calls.

    Args:
      given: number -> a message to repeat, or None
    """
    self.graph = MessageGraph(talk, format)
    self.completions: dict[int, Completion] = {}  # by number
    self.reward: Reward | None = None
    # The limit that a call ran into first; None: none.
    self.limit: Status | None = None
    self.cut = False  # the message that ended last, by its number of tokens
    self.counts: Counter[str] = Counter()
    self.finished = False
    self._words, self._format, self._limits = talk.words, format, limits
    self._sampling, self._given = sampling, given

  @property
  def room(self) -> int:
    """Number of calls that it may still admit."""
    made = len(self.graph.calls)
    return 0 if self.finished else max(0, self._limits.calls - made)

  def read(self, request: ModelRequest) -> CallPrompt:
    """Encodes a request; has no side effects and may run in any thread.

    Raises:
      RefusedError: as `begin`.
    """
    self._check_room()
    return self._prompt(request)

  def begin(
    self, request: ModelRequest, prompt: CallPrompt | None = None
  ) -> PendingCall:
    """Admits a call.

    Args:
      prompt: the tokens of the request, as `read` gave them
    Raises:
      RefusedError: the session has finished, a limit is exceeded, or the
        conversation cannot be rendered.
    """
    self._check_room()
    limits, prompt = self._limits, prompt or self._prompt(request)
    how = self._sampling(self.graph.next_number, request.sampling)
    how = how._replace(stop=self._stop(request, how.stop))
    size = len(prompt.ids)
    if size + how.budget > limits.context:
      raise self._too_long(f'{size} tokens', how.budget)
    number = self.graph.open(prompt, how.budget)
    if self.graph.row_tokens() > limits.row:
      self.graph.drop(number)
      raise self._over(
        Status.TOKEN_LIMIT,
        f'all branches of the session must have at most {limits.row} tokens'
        f' together, and this one of {size} exceeds it',
        'context_length_exceeded',
      )
    self.counts['calls'] += 1
    self.counts['foreign'] += prompt.foreign
    for name in request.ignored:
      listed = name in (*SAMPLING, 'tool_choice')
      self.counts[f'ignored/{name if listed else "other"}'] += 1
    return PendingCall(number, prompt, how, request, self._given(number))

  def leave(self) -> None:
    """Counts a call abandoned before it was admitted."""
    if not self.finished:
      self.counts.update(('calls', 'cancelled'))

  def drop(self, call: PendingCall) -> None:
    """Withdraws an abandoned call."""
    if not self.finished:
      self.graph.drop(call.number)
      self.counts['cancelled'] += 1

  def end(
    self, call: PendingCall, completion: Completion, model: str
  ) -> ModelReply:
    """Ends a call with its sampled message.

    Raises:
      RefusedError: the session has finished.
    """
    if self.finished:
      raise RefusedError('the session has finished', code='session_finished')
    ids, request = completion.ids, call.request
    text, stop = self._text(ids, request)
    text, uses = read_calls(text, self._format, request.tools, call.number)
    finish = 'tool_calls' if uses else 'stop'
    ended = ids[-1:] == [self._words.eot] or (
      call.how.stop is not None and call.how.stop(ids)
    )
    self.cut = not ended
    if self.cut:
      finish = 'length'
    name = f'{call.number}-{len(call.prompt.ids)}'
    now = int(time.time())
    reply = ModelReply(
      name, now, model, text, uses, finish, call.prompt.ids, completion, stop
    )
    message = None if request.tokens else reply.message
    self.graph.finish(call.number, ids, message)
    self.completions[call.number] = completion
    return reply

  def post(self, body: Mapping[str, Any]) -> Reward:
    """Takes the reward of the session; the first valid one counts.

    Raises:
      RefusedError: it is invalid, or the session already has one.
    """
    reward = reward_of(body)
    if self.finished:
      raise RefusedError('the session has finished', code='session_finished')
    if self.reward is not None:
      raise RefusedError(
        f'the session already has a reward, {self.reward.reward:g}; the first'
        ' one counts',
        status=409,
      )
    self.reward = reward
    return reward

  def _check_room(self) -> None:
    if self.finished:
      raise RefusedError('the session has finished', code='session_finished')
    if not self.room:
      raise self._over(
        Status.TURN_LIMIT,
        f'the session has made all of its {self._limits.calls} calls',
        'session_over_budget',
      )

  def _text(
    self, ids: Sequence[int], request: ModelRequest
  ) -> tuple[str, str | int | None]:
    """Decodes a message; returns its text and the stop that ended it."""
    text = chat_format.content(self._words, ids)
    places = [(at, x) for x in request.stops if (at := text.find(x)) >= 0]
    if places:
      at, stop = min(places, key=lambda x: x[0])
      return text[:at], stop
    if ids and ids[-1] in request.stop_tokens and ids[-1] != self._words.eot:
      return self._words.decode(ids[:-1]), ids[-1]
    return text, None

  def _prompt(self, request: ModelRequest) -> CallPrompt:
    if request.tokens:
      if len(request.tokens) > self._limits.context:
        size = len(request.tokens)
        raise self._too_long(f'{size} tokens', self._limits.message)
      if max(request.tokens) >= self._words.vocab_size:
        raise RefusedError(
          f'token ids must be in [0, {self._words.vocab_size}), the vocabulary'
          f' of the model, got {max(request.tokens)}'
        )
      return self.graph.prompt_of_tokens(request.tokens)
    count, context = len(request.messages), self._limits.context
    if count > context:  # each is a token at the least
      raise self._too_long(f'{count} messages', self._limits.message)
    texts = list(_texts(request))
    size = sum(map(len, texts))
    if size > _CHARACTERS * context:
      raise self._too_long(f'{size} characters', self._limits.message)
    if size > _USUAL * context and (least := self._least(texts)) > context:
      raise self._too_long(f'at least {least} tokens', self._limits.message)
    try:
      return self.graph.prompt(request.messages, request.tools)
    except RecursionError:
      raise RefusedError('the conversation is nested too deeply') from None
    except ValueError as error:
      raise RefusedError(str(error)) from error

  def _least(self, texts: Sequence[str]) -> int:
    """Returns a lower bound on the tokens of the texts; stops when large."""
    count = 0
    for text in texts:
      for at in range(0, len(text), _PART):
        ids = self._words.encode(text[at : at + _PART])
        count += max(0, len(ids) - _CHARACTERS)  # a cut may divide tokens
        if count > self._limits.context:
          return count
    return count

  def _too_long(self, size: str, message: int) -> RefusedError:
    return self._over(
      Status.TOKEN_LIMIT,
      f'prompt and message must fit into a context of {self._limits.context}'
      f' tokens, got {size} and {message}',
      'context_length_exceeded',
    )

  def _over(self, status: Status, text: str, code: str) -> RefusedError:
    self.limit = status if self.limit is None else self.limit
    return RefusedError(text, code=code)

  def _stop(self, request: ModelRequest, stop: Stop | None) -> Stop | None:
    """Combines `stop` with the request's stop strings; the first one wins.

    The token that completes a stop string stays in the row.
    """
    stops = [stop] if stop else []
    if request.stops:
      stops.append(engine.texts(request.stops, self._words.decode))
    if ends := {*request.stop_tokens} - {self._words.eot}:
      stops.append(
        lambda ids: next((i for i, x in enumerate(ids, 1) if x in ends), 0)
      )
    if not stops:
      return None
    return lambda ids: min(filter(None, (x(ids) for x in stops)), default=0)


def _texts(request: ModelRequest) -> Iterator[str]:
  """Yields all texts that are tokenized."""
  for message in request.messages:
    yield message.text
    for call in message.calls:
      yield from (call.name, call.arguments)
  for tool in request.tools:
    yield from (tool.description, canonical_json(tool.schema))


def read_calls(
  text: str, format: Format, tools: Sequence[ToolDescription], number: int
) -> tuple[str, list[ToolUse]]:
  """Splits a message into the text around its calls and calls with ids.

  Unreadable calls stay in the text.

  Args:
    number: of the message, from which ids are derived
  """
  places = format.locate(text, tools) if tools else []
  uses, rest, at = [], [], 0
  for place in places:
    if isinstance(place.call, Call):
      arguments = canonical_json(place.call.args)
      id = f'call_{number}_{len(uses)}'
      uses.append(ToolUse(id, place.call.name, arguments))
      rest.append(text[at : place.whole[0]])
      at = place.whole[1]
  rest.append(text[at:])
  return (''.join(rest).strip() if uses else text), uses
