"""Formats of conversations as tokens: bare, or in a chat template.

Both only append tokens to a `Conversation`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from agentrl.text import chat_template
from agentrl.text.chat_template import (
  AGENT,
  Chat,
  Conversation,
  Message,
  Turn,
)
from agentrl.text.tokenizer import Embedded, Tokenizer


class ChatFormat(NamedTuple):
  """Conversations of one kind.

  start: messages -> the conversation up to where the agent speaks
  add_reply: (conversation, ids the agent sampled) -> the conversation
  add_messages: (conversation, messages) -> up to where the agent speaks again
  add_turns: (conversation, [(ids of a reply, messages behind it), ...]) -> as
    the two above give it turn by turn, in time linear in its length
  """

  words: Tokenizer
  start: Callable[[Sequence[Message]], Conversation]
  add_reply: Callable[[Conversation, Sequence[int]], Conversation]
  add_messages: Callable[[Conversation, Sequence[Message]], Conversation]
  add_turns: Callable[[Conversation, Sequence[Turn]], Conversation]


def framed(chat: Chat) -> ChatFormat:
  """Returns the format of a chat template."""
  functions = (
    chat_template.start,
    chat_template.add_reply,
    chat_template.add_messages,
    chat_template.add_turns,
  )
  return ChatFormat(chat.words, *(partial(f, chat) for f in functions))


def bare(words: Tokenizer) -> ChatFormat:
  """Makes a format without a template: others' messages are lines of text."""
  add = partial(_add_messages, words)
  start = partial(add, Conversation((), (), (), ''))
  turns = partial(_add_turns, words)
  return ChatFormat(words, start, partial(_add_reply, words), add, turns)


def named(tokenizer: str) -> ChatFormat:
  """Makes a folder's chat template a format; 'embedded': bare, its own words.

  Raises:
    ValueError: as chat_template.load.
  """
  if tokenizer == Embedded.name:
    return bare(Embedded())
  return framed(chat_template.load(tokenizer))


def content(words: Tokenizer, ids: Sequence[int]) -> str:
  """Returns the text of a message of the agent, without its end of turn."""
  ended = bool(ids) and ids[-1] == words.eot
  return words.decode(ids[: len(ids) - ended])


def _add_reply(
  words: Tokenizer, talk: Conversation, ids: Sequence[int]
) -> Conversation:
  return talk.longer([_reply(words, ids)])


def _add_messages(
  words: Tokenizer, talk: Conversation, messages: Sequence[Message]
) -> Conversation:
  return talk.longer([_heard(words, messages)])


def _add_turns(
  words: Tokenizer, talk: Conversation, turns: Sequence[Turn]
) -> Conversation:
  parts = []
  for ids, messages in turns:
    parts += [_reply(words, ids), _heard(words, messages)]
  return talk.longer(parts)


def _reply(words: Tokenizer, ids: Sequence[int]) -> Conversation:
  ids = tuple(int(i) for i in ids)
  message = Message(AGENT, content(words, ids))
  return Conversation((message,), ids, (True,) * len(ids), words.decode(ids))


def _heard(words: Tokenizer, messages: Sequence[Message]) -> Conversation:
  text = ''.join(
    m.content if m.content.endswith('\n') else f'{m.content}\n'
    for m in messages
  )
  ids = tuple(words.encode(text))
  return Conversation(tuple(messages), ids, (False,) * len(ids), text)
