"""Messages of host rollouts that another model writes, over chat completions.

Environments and limits are those of host rollouts. A conversation is known by
its tokens here and by its messages there: `recorded` keeps both. What comes
back is text, so its tokens are those that this tokenizer gives it, and there
are no log-probs: such trajectories are evaluated, not trained on.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from agentrl.rollout.engine.engine import Completion, SamplingParams
from agentrl.rollout.threaded import Generate
from agentrl.text.chat_format import ChatFormat
from agentrl.text.chat_template import Conversation, Message
from agentrl.text.tokenizer import Tokenizer


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
    """Makes a format whose conversations are found here, once one is due."""

    def remember(made: Conversation) -> Conversation:
      self._messages[made.ids] = made.messages
      return made

    return talk._replace(
      start=lambda messages: remember(talk.start(messages)),
      add_messages=lambda *args: remember(talk.add_messages(*args)),
    )

  def take(self, ids: Sequence[int]) -> tuple[Message, ...]:
    """Returns the messages of a conversation of these tokens."""
    return self._messages[tuple(ids)]

  def forget(self) -> None:
    self._messages.clear()


def generate_by(
  ask: Ask, conversations: Conversations, words: Tokenizer
) -> Generate:
  """Has a model write the messages; for a `ThreadedGenerator`."""

  def generate(context: Sequence[int], how: SamplingParams) -> Completion:
    seed = int(how.key[1]) & 0x7FFFFFFF
    written = ask(conversations.take(context), seed)
    ids = words.encode(written.text)
    ids = ids if written.cut else [*ids, words.eot]
    # A cut message that is empty still takes its turn.
    ids = (ids or [words.eot])[: how.budget]
    zero = [0.0] * len(ids)
    return Completion(0, ids, zero, zero, [0] * len(ids))

  return generate
