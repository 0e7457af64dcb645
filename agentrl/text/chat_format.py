"""Formats of conversations as tokens: bare, or in a chat template.

Both only append tokens to a `Conversation`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from agentrl.text import chat_template
from agentrl.text.chat_template import AGENT, Chat, Conversation, Message
from agentrl.text.tokenizer import Embedded, Tokenizer


class ChatFormat(NamedTuple):
  """Conversations of one kind.

  start: messages -> the conversation up to where the agent speaks
  add_reply: (conversation, ids the agent sampled) -> the conversation
  add_messages: (conversation, messages) -> up to where the agent speaks again
  """

  words: Tokenizer
  start: Callable[[Sequence[Message]], Conversation]
  add_reply: Callable[[Conversation, Sequence[int]], Conversation]
  add_messages: Callable[[Conversation, Sequence[Message]], Conversation]


def framed(chat: Chat) -> ChatFormat:
  """The format of a chat template."""
  functions = (
    chat_template.start,
    chat_template.add_reply,
    chat_template.add_messages,
  )
  return ChatFormat(chat.words, *(partial(f, chat) for f in functions))


def bare(words: Tokenizer) -> ChatFormat:
  """The format without a template: messages of others are lines of text."""
  add = partial(_add_messages, words)
  start = partial(add, Conversation((), (), (), ''))
  return ChatFormat(words, start, partial(_add_reply, words), add)


def named(tokenizer: str) -> ChatFormat:
  """The format of a folder's chat template; 'embedded': bare, its own words.

  Raises:
    ValueError: as chat_template.load.
  """
  if tokenizer == Embedded.name:
    return bare(Embedded())
  return framed(chat_template.load(tokenizer))


def content(words: Tokenizer, ids: Sequence[int]) -> str:
  """The text of a message of the agent, without its end of turn."""
  ended = bool(ids) and ids[-1] == words.eot
  return words.decode(ids[: len(ids) - ended])


def _add_reply(words: Tokenizer, talk: Conversation, ids) -> Conversation:
  ids = tuple(int(i) for i in ids)
  return talk._replace(
    messages=(*talk.messages, Message(AGENT, content(words, ids))),
    ids=talk.ids + ids,
    agent=talk.agent + (True,) * len(ids),
    text=talk.text + words.decode(ids),
  )


def _add_messages(
  words: Tokenizer, talk: Conversation, messages
) -> Conversation:
  text = ''.join(
    m.content if m.content.endswith('\n') else f'{m.content}\n'
    for m in messages
  )
  ids = tuple(words.encode(text))
  return talk._replace(
    messages=(*talk.messages, *messages),
    ids=talk.ids + ids,
    agent=talk.agent + (False,) * len(ids),
    text=talk.text + text,
  )
