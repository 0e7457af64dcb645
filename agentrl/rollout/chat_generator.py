"""Generator whose messages another model writes, asked over chat completions.

Environments and limits are those of host rollouts. A conversation is known by
its tokens here and by its messages there: `recorded` keeps both. What comes
back is text, so its tokens are those that this tokenizer gives it, and there
are no log-probs: such trajectories are evaluated, not trained on.
"""

import concurrent.futures
from collections.abc import Callable, Sequence
from typing import NamedTuple

from agentrl.rollout.engine.engine import (
  Completion,
  GenerationFault,
  SamplingParams,
)
from agentrl.text.chat_format import ChatFormat
from agentrl.text.chat_template import Conversation, Message
from agentrl.text.tokenizer import Tokenizer

_WAIT = 0.05  # seconds for a reply before environments are looked after


class WrittenMessage(NamedTuple):
  """What a model wrote."""

  text: str
  cut: bool = False  # it had not come to its end


# (messages, their seed) -> what the model writes; raises what went wrong.
Ask = Callable[[Sequence[Message], int], WrittenMessage]


class Conversations:
  """Messages of conversations by their tokens."""

  def __init__(self) -> None:
    self._messages: dict[tuple[int, ...], tuple[Message, ...]] = {}

  def recorded(self, talk: ChatFormat) -> ChatFormat:
    """The format, whose conversations are found here when a message is due."""

    def remember(made: Conversation) -> Conversation:
      self._messages[made.ids] = made.messages
      return made

    return talk._replace(
      start=lambda messages: remember(talk.start(messages)),
      add_messages=lambda *args: remember(talk.add_messages(*args)),
    )

  def take(self, ids: Sequence[int]) -> tuple[Message, ...]:
    """The messages of a conversation of these tokens."""
    return self._messages[tuple(ids)]

  def forget(self) -> None:
    self._messages.clear()


class ChatGenerator:
  """See rollout.host.Generator; requests run in threads of their own."""

  def __init__(
    self, ask: Ask, conversations: Conversations, words: Tokenizer, threads: int
  ):
    """threads: requests at a time."""
    self._ask, self._conversations, self._words = ask, conversations, words
    self._pool = concurrent.futures.ThreadPoolExecutor(threads)
    self._open: dict[
      concurrent.futures.Future[WrittenMessage], tuple[int, SamplingParams]
    ] = {}

  @property
  def busy(self) -> bool:
    return bool(self._open)

  def submit(
    self, line: int, context: Sequence[int], how: SamplingParams
  ) -> None:
    messages = self._conversations.take(context)
    seed = int(how.key[1]) & 0x7FFFFFFF
    self._open[self._pool.submit(self._ask, messages, seed)] = line, how

  def dispatch(self) -> None:
    """Requests are on their way already."""

  def collect(self) -> list[Completion | GenerationFault]:
    done, _ = concurrent.futures.wait(
      self._open, _WAIT, concurrent.futures.FIRST_COMPLETED
    )
    return [self._made(*self._open.pop(x), x) for x in done]

  def cancel(self, line: int) -> None:
    for future in [x for x, (other, _) in self._open.items() if other == line]:
      future.cancel()
      del self._open[future]

  def close(self) -> None:
    self._pool.shutdown(wait=False, cancel_futures=True)

  def _made(
    self, line: int, how: SamplingParams, future
  ) -> Completion | GenerationFault:
    if error := future.exception():
      return GenerationFault(line, f'{type(error).__name__}: {error}')
    written = future.result()
    ids = self._words.encode(written.text)
    ids = ids if written.cut else [*ids, self._words.eot]
    # A cut message that is empty still takes its turn.
    ids = (ids or [self._words.eot])[: how.budget]
    zero = [0.0] * len(ids)
    return Completion(line, ids, zero, zero, [0] * len(ids))
