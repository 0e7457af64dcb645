"""Conversations in a checkpoint's own chat template, by appending tokens only.

What stands in a conversation never changes: what the model sampled stays as
it was sampled, and what others say is encoded behind it. Chat templates are
functions of whole conversations, though, and some write earlier turns anew
once others follow (thinking is taken out, the system text changes, a turn
begins otherwise than it was asked for). That is found by comparing the
template's text of the whole with the text that stands here:

  rewritten  ⇔  render(m₁ … mₙ) ≠ text(m₁ … mₙ₋₁) + delta(mₙ)
  delta(m)   =  what render(user, agent, m) has behind the agent's last token

and is said once in the log. Then the policy decides: 'keep' appends the delta
all the same, so that the model reads on what it said; 'error' raises.
"""

import functools
import os
import re
from collections.abc import Sequence
from typing import NamedTuple

from absl import logging

from agentrl.text.message import AGENT, Message
from agentrl.text.tokenizer import HuggingFace

POLICIES = ('keep', 'error')
# The agent's words in a conversation made up to see what follows them.
_MARK = 'spoken-by-the-agent'
_MADE_UP = [{'role': 'user', 'content': 'x'}, {'role': AGENT, 'content': _MARK}]
# What others write may hold literals of special tokens. While the template is
# at work private characters stand for them, so that its own are told apart.
_HIDDEN = 0xE000


class Chat(NamedTuple):
  """A tokenizer and its chat template."""

  words: HuggingFace  # whose end of turn is the template's
  specials: dict[str, int]  # literal -> id
  rewriting: str  # one of POLICIES

  @property
  def eot(self) -> int:
    """Ends the agent's turn."""
    return self.words.eot


class Conversation(NamedTuple):
  """What was said, as it was said; functions below return longer ones."""

  messages: tuple[Message, ...]
  ids: tuple[int, ...]
  agent: tuple[bool, ...]  # of each id: the agent wrote it, end of turn too
  text: str  # what the ids say
  rewritten: bool = False  # the template would have written it otherwise


def load(
  path: str | os.PathLike[str], *, vocab: int = 0, rewriting: str = 'keep'
) -> Chat:
  """The chat of a local folder; nothing is fetched.

  Args:
    vocab: rows of the model's embedding; 0: as many as the tokenizer knows
    rewriting: what to do where the template rewrites; one of POLICIES
  Raises:
    ValueError: for a tokenizer without a chat template, without an end of
      sequence or of turn, or with more tokens than the embedding.
  """
  return of(HuggingFace(path, vocab=vocab), rewriting=rewriting)


def of(words: HuggingFace, *, rewriting: str = 'keep') -> Chat:
  """The chat of a tokenizer, whose end of turn becomes the template's."""
  if rewriting not in POLICIES:
    raise ValueError(f'rewriting={rewriting!r} is unknown; choose {POLICIES}')
  chat = Chat(words, words.specials(), rewriting)
  behind = _behind_agent(chat, [], ask=False)
  end = _pattern(chat).match(behind)
  if not end:
    raise ValueError(
      f'the chat template of tokenizer {words.name} ends a turn with'
      f' {behind[:20]!r}, which begins with no special token, so that none'
      ' could end what is sampled; add one to the template'
    )
  words.eot = chat.specials[end[0]]  # which need not be eos
  return chat


def start(chat: Chat, messages: Sequence[Message]) -> Conversation:
  """A conversation up to where the agent speaks; none of it is the agent's."""
  if not messages:
    raise ValueError('a conversation needs at least one message, got none')
  if messages[-1].role == AGENT:
    raise ValueError(
      f'the last of {len(messages)} messages is by the {AGENT}, who is to speak'
      ' next; end with what it hears'
    )
  text = _render(chat, messages, ask=True)
  ids = _encode(chat, text)
  return Conversation(
    tuple(messages), ids, (False,) * len(ids), _shown(chat, text)
  )


def said(chat: Chat, talk: Conversation, ids: Sequence[int]) -> Conversation:
  """With a message that the agent sampled, to its end of turn or cut short."""
  ids = tuple(int(i) for i in ids)
  if talk.messages[-1].role == AGENT:
    raise ValueError('the agent has spoken already; give what it heard first')
  if chat.eot in ids[:-1]:
    raise ValueError(
      f'token {chat.eot} ends a turn, and stands at {ids.index(chat.eot)} of a'
      f' message of {len(ids)} tokens; cut the message there'
    )
  ended = ids[-1:] == (chat.eot,)
  content = chat.words.decode(ids[: len(ids) - ended])
  end = chat.words.decode([chat.eot]) if ended else ''
  return talk._replace(
    messages=(*talk.messages, Message(AGENT, content)),
    ids=talk.ids + ids,
    agent=talk.agent + (True,) * len(ids),
    text=talk.text + content + end,
  )


def heard(
  chat: Chat, talk: Conversation, messages: Sequence[Message]
) -> Conversation:
  """With messages of others, up to where the agent speaks again.

  A turn that was cut short is ended first, by a token that is not the agent's.

  Raises:
    ValueError: if the template refuses the messages, or rewrites what was
      said and the policy is 'error'.
  """
  if talk.messages[-1].role != AGENT:
    raise ValueError(
      'the agent has not spoken since the last message; give all that it hears'
      ' in one call'
    )
  behind = _behind_agent(chat, messages, ask=True)
  if talk.ids[-1] == chat.eot and talk.agent[-1]:
    behind = _pattern(chat).sub('', behind, count=1)
  every = (*talk.messages, *messages)
  text = talk.text + _shown(chat, behind)
  rewritten = _shown(chat, _render(chat, every, ask=True)) != text
  if rewritten:
    _complain(chat.words.name, chat.rewriting)
  ids = _encode(chat, behind)
  return Conversation(
    every,
    talk.ids + ids,
    talk.agent + (False,) * len(ids),
    text,
    talk.rewritten or rewritten,
  )


def _complain(name: str, rewriting: str) -> None:
  what = f'the chat template of tokenizer {name} rewrites earlier turns'
  if rewriting == 'error':
    raise ValueError(
      f"{what}, which tokens cannot follow; set rewriting to 'keep', which"
      ' keeps them as they were sampled, or take another template'
    )
  _say(f'{what}; they are kept as they were sampled')


@functools.cache
def _say(sentence: str) -> None:
  """Once."""
  logging.warning('%s', sentence)


def _behind_agent(chat: Chat, messages: Sequence[Message], *, ask: bool) -> str:
  """What follows the agent's words where others speak next: end of turn, ..."""
  made_up = [Message(**m) for m in _MADE_UP]
  text = _render(chat, [*made_up, *messages], ask=ask)
  _, found, behind = text.partition(_MARK)
  if not found:
    raise ValueError(
      f'the chat template of tokenizer {chat.words.name} leaves out what the'
      ' agent says; take another template'
    )
  return behind


def _render(chat: Chat, messages: Sequence[Message], *, ask: bool) -> str:
  """The template's text, specials of the contents hidden."""
  hidden = [
    {'role': m.role, 'content': _hide(chat, m.content)} for m in messages
  ]
  return chat.words.render(hidden, ask=ask)


def _pattern(chat: Chat) -> re.Pattern[str]:
  longest = sorted(chat.specials, key=len, reverse=True)
  return re.compile('|'.join(map(re.escape, longest)))


def _hide(chat: Chat, text: str) -> str:
  for i, literal in enumerate(chat.specials):
    text = text.replace(literal, chr(_HIDDEN) + chr(_HIDDEN + 1 + i))
  return text


def _shown(chat: Chat, text: str) -> str:
  """Hidden literals written out again."""
  for i, literal in enumerate(chat.specials):
    text = text.replace(chr(_HIDDEN) + chr(_HIDDEN + 1 + i), literal)
  return text


def _encode(chat: Chat, text: str) -> tuple[int, ...]:
  """Only the template's own literals become special tokens."""
  ids, at = [], 0
  for found in _pattern(chat).finditer(text):
    ids += chat.words.encode(_shown(chat, text[at : found.start()]))
    ids.append(chat.specials[found[0]])
    at = found.end()
  return (*ids, *chat.words.encode(_shown(chat, text[at:])))
