"""How conversations become tokens: bare, or in a chat template.

Both are three functions of a `Conversation`, and both only append tokens.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from agentrl.text import chat_template
from agentrl.text.chat_template import AGENT, Chat, Conversation, Message
from agentrl.text.tokenizer import Tokenizer


class Talk(NamedTuple):
  """Conversations of one kind.

  start: messages -> the conversation up to where the agent speaks
  said: (conversation, ids the agent sampled) -> the conversation
  heard: (conversation, messages) -> up to where the agent speaks again
  """

  words: Tokenizer
  start: Callable[[Sequence[Message]], Conversation]
  said: Callable[[Conversation, Sequence[int]], Conversation]
  heard: Callable[[Conversation, Sequence[Message]], Conversation]


def framed(chat: Chat) -> Talk:
  """With what the chat template writes around messages."""
  functions = (chat_template.start, chat_template.said, chat_template.heard)
  return Talk(chat.words, *(partial(f, chat) for f in functions))


def bare(words: Tokenizer) -> Talk:
  """Nothing around messages: what others say is a line, or several."""
  functions = (_start, _said, _heard)
  return Talk(words, *(partial(f, words) for f in functions))


def content(words: Tokenizer, ids: Sequence[int]) -> str:
  """The text of a message of the agent, without its end of turn."""
  ended = bool(ids) and ids[-1] == words.eot
  return words.decode(ids[: len(ids) - ended])


def _start(words: Tokenizer, messages: Sequence[Message]) -> Conversation:
  return _heard(words, Conversation((), (), (), ''), messages)


def _said(words: Tokenizer, talk: Conversation, ids) -> Conversation:
  ids = tuple(int(i) for i in ids)
  return talk._replace(
    messages=(*talk.messages, Message(AGENT, content(words, ids))),
    ids=talk.ids + ids,
    agent=talk.agent + (True,) * len(ids),
    text=talk.text + words.decode(ids),
  )


def _heard(words: Tokenizer, talk: Conversation, messages) -> Conversation:
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
