"""Conversations in a checkpoint's own chat template, by appending tokens only.

Tokens of a conversation never change: sampled ones stay as they were sampled,
and messages of others are encoded behind them. Chat templates are functions
of whole conversations, though, and some rewrite earlier turns once others
follow (thinking is removed, the system text changes, a turn begins otherwise
than its generation prompt). This is detected by comparing the template's text
of the whole with the text kept here:

  rewritten  ⇔  render(m₁ … mₙ) ≠ text(m₁ … mₙ₋₁) + delta(mₙ)
  delta(m)   =  what render(user, agent, m) has behind the agent's last token

and logged once. Then the policy decides: 'keep' appends the delta anyway, so
that the model keeps its own words in context; 'error' raises.
"""

import functools
import itertools
import os
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from absl import logging

from agentrl.text.message import AGENT, Message
from agentrl.text.tokenizer import HuggingFace

POLICIES = ('keep', 'error')
# Text that a tokenizer has to give back for its template to see what was said.
_PROBE = '<think>\nHm,  1+1?\n</think>\n\n<answer>2</answer>'
# The agent's words in a conversation made up to see what follows them.
_MARK = 'spoken-by-the-agent'
_MADE_UP = [Message('user', 'x'), Message(AGENT, _MARK)]
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
  """Messages and tokens so far; functions below return longer ones."""

  messages: tuple[Message, ...]
  ids: tuple[int, ...]
  agent: tuple[bool, ...]  # of each id: the agent wrote it, end of turn too
  text: str  # decoded ids
  rewritten: bool = False  # the template would have written it otherwise

  def longer(self, parts: Iterable['Conversation']) -> 'Conversation':
    """Returns the conversation with parts behind it."""
    every, chain = [self, *parts], itertools.chain.from_iterable
    return self._replace(
      messages=tuple(chain(x.messages for x in every)),
      ids=tuple(chain(x.ids for x in every)),
      agent=tuple(chain(x.agent for x in every)),
      text=''.join(x.text for x in every),
    )


# Ids that the agent sampled, and what it heard then.
Turn = tuple[Sequence[int], Sequence[Message]]


def load(
  path: str | os.PathLike[str], *, vocab: int = 0, rewriting: str = 'keep'
) -> Chat:
  """Returns the chat of a local folder; nothing is fetched.

  Args:
    vocab: rows of the model's embedding; 0: as many as the tokenizer knows
    rewriting: what to do where the template rewrites; one of POLICIES
  Raises:
    ValueError: for a tokenizer without a chat template, without an end of
      sequence or of turn, with more tokens than the embedding, or that does
      not give text back as it was.
  """
  return of(HuggingFace(path, vocab=vocab), rewriting=rewriting)


def of(words: HuggingFace, *, rewriting: str = 'keep') -> Chat:
  """Returns the chat of a tokenizer, whose end of turn is the template's."""
  if rewriting not in POLICIES:
    raise ValueError(f'rewriting={rewriting!r} is unknown; choose {POLICIES}')
  back = words.decode(words.encode(_PROBE))
  if back != _PROBE:
    raise ValueError(
      f'tokenizer {words.name} does not give text back: {_PROBE!r} is read as'
      f' {back!r}, so that no template could see what was said; take a'
      ' tokenizer that keeps every character'
    )
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
  text = _render(chat, _MADE_UP, ask=False)
  if not places(chat, text, _encode(chat, text), _MARK):
    raise joined(chat, 'what the agent says')
  return chat


def places(chat: Chat, text: str, ids: Sequence[int], mark: str) -> list[int]:
  """Finds indices in the ids where the mark in a template's text begins.

  [] if it has no tokens of its own, or would not with other words in its place:
  behind special tokens some tokenizers put a space before the first word.
  """
  behind = text.partition(mark)[0].endswith(tuple(chat.specials))
  part = chat.words.encode(mark)
  if behind and chat.words.encode_sections(['', mark])[1] != part:
    return []
  ids, size = list(ids), len(part)
  return [i for i in range(len(ids)) if ids[i : i + size] == part]


def joined(chat: Chat, what: str) -> ValueError:
  """Makes an error of tokens that span template text and message text."""
  return ValueError(
    f'tokenizer {chat.words.name} joins {what} to the text around it into other'
    ' tokens, so that messages cannot be encoded one after the other; take'
    ' another tokenizer, or a template that writes a special token or a new'
    ' line there'
  )


def start(chat: Chat, messages: Sequence[Message]) -> Conversation:
  """Starts a conversation up to where the agent speaks; none is the agent's."""
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


def add_reply(
  chat: Chat, talk: Conversation, ids: Sequence[int]
) -> Conversation:
  """Appends a sampled message, to its end of turn or cut short."""
  if talk.messages[-1].role == AGENT:
    raise ValueError('the agent has spoken already; give what it heard first')
  return talk.longer([_reply(chat, ids)])


def add_messages(
  chat: Chat, talk: Conversation, messages: Sequence[Message]
) -> Conversation:
  """Appends messages of others, up to where the agent speaks again.

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
  return _compared(chat, talk.longer([_heard(chat, talk, messages)]))


def add_turns(
  chat: Chat, talk: Conversation, turns: Sequence[Turn]
) -> Conversation:
  """Appends replies and what was heard behind each.

  The text is compared with the template's once, at the end.
  """
  parts = []
  for ids, messages in turns:
    reply = _reply(chat, ids)
    parts += [reply, _heard(chat, reply, messages)]
  return _compared(chat, talk.longer(parts))


def _reply(chat: Chat, ids: Sequence[int]) -> Conversation:
  """Returns a sampled message alone."""
  ids = tuple(int(i) for i in ids)
  if chat.eot in ids[:-1]:
    raise ValueError(
      f'token {chat.eot} ends a turn, and stands at {ids.index(chat.eot)} of a'
      f' message of {len(ids)} tokens; cut the message there'
    )
  ended = ids[-1:] == (chat.eot,)
  content = chat.words.decode(ids[: len(ids) - ended])
  end = chat.words.decode([chat.eot]) if ended else ''
  message = Message(AGENT, content)
  return Conversation((message,), ids, (True,) * len(ids), content + end)


def _heard(
  chat: Chat, talk: Conversation, messages: Sequence[Message]
) -> Conversation:
  """Returns messages of others alone, as they stand behind a reply.

  Args:
    talk: what ends with the reply
  """
  behind = _behind_agent(chat, messages, ask=True)
  ids = _encode(chat, behind)  # with the end of turn, as in the whole
  if talk.ids[-1:] == (chat.eot,) and talk.agent[-1]:
    behind, ids = _pattern(chat).sub('', behind, count=1), ids[1:]
  text = _shown(chat, behind)
  return Conversation(tuple(messages), ids, (False,) * len(ids), text)


def _compared(chat: Chat, talk: Conversation) -> Conversation:
  """Returns the conversation, marked if the template would write another."""
  whole = _shown(chat, _render(chat, talk.messages, ask=True))
  rewritten = whole != talk.text
  if rewritten:
    template = f'the chat template of tokenizer {chat.words.name}'
    what = f'{template} rewrites earlier turns'
    if chat.rewriting == 'error':
      raise ValueError(
        f"{what}, which tokens cannot follow; set rewriting to 'keep', which"
        ' keeps them as they were sampled, or take another template'
      )
    _say(f'{what}; they are kept as they were sampled')
  return talk._replace(rewritten=talk.rewritten or rewritten)


@functools.cache
def _say(sentence: str) -> None:
  """Logs a sentence once."""
  logging.warning('%s', sentence)


def _behind_agent(chat: Chat, messages: Sequence[Message], *, ask: bool) -> str:
  """Returns template text from the agent's end of turn through the messages."""
  text = _render(chat, [*_MADE_UP, *messages], ask=ask)
  _, mark, behind = text.partition(_MARK)
  if not mark:
    raise ValueError(
      f'the chat template of tokenizer {chat.words.name} leaves out what the'
      ' agent says; take another template'
    )
  return behind


def _render(chat: Chat, messages: Sequence[Message], *, ask: bool) -> str:
  """Returns the template's text, specials of the contents hidden."""
  hidden = []
  for m in messages:
    text = m.content
    for i, literal in enumerate(chat.specials):
      text = text.replace(literal, chr(_HIDDEN) + chr(_HIDDEN + 1 + i))
    hidden.append({'role': m.role, 'content': text})
  return chat.words.render(hidden, ask=ask)


def _pattern(chat: Chat) -> re.Pattern[str]:
  longest = sorted(chat.specials, key=len, reverse=True)
  return re.compile('|'.join(map(re.escape, longest)))


def _shown(chat: Chat, text: str) -> str:
  """Writes hidden literals out again."""
  for i, literal in enumerate(chat.specials):
    text = text.replace(chr(_HIDDEN) + chr(_HIDDEN + 1 + i), literal)
  return text


def _encode(chat: Chat, text: str) -> tuple[int, ...]:
  """Encodes a text that begins a conversation or with a special token.

  As transformers encodes it, but that only the template's own literals become
  special tokens: where contents hold some, what is between is encoded alone.
  """
  pattern = _pattern(chat)
  own = [chat.specials[literal] for literal in pattern.findall(text)]
  whole = chat.words.encode_whole(_shown(chat, text), specials=True)
  special = {*chat.specials.values()}
  if [i for i in whole if i in special] == own:
    return tuple(whole)
  sections = [_shown(chat, section) for section in pattern.split(text)]
  first, *rest = chat.words.encode_sections(sections)
  return (
    *first,
    *(i for end, ids in zip(own, rest, strict=True) for i in (end, *ids)),
  )
