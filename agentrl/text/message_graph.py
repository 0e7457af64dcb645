"""Calls of a session as a tree of messages whose tokens never change.

A program sends the whole conversation with every call. What it repeats is found
again as the tokens that were read and sampled then:

  prompt = tokens of the longest known path + rendered new messages

so that prompt + sampled of a call begins each of its successors. A message of
the agent that differs from what was sampled (rewritten, shortened, made up) is
foreign: it is rendered as context, and the path forks there. Nothing is
realigned and nothing sampled is rendered again.

Rows of a tree, each a chain of calls along first children:

  a ─ b ─ d        row 0: a b d
      └── c        row 1: (a b) c     the tokens of a and b as context

so that every call is trained on in exactly one row. A call that comes later
never changes which row an earlier one belongs to.
"""

import dataclasses
import itertools
import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from agentrl.text.chat_format import ChatFormat
from agentrl.text.chat_messages import (
  ChatMessage,
  digest_after,
  digests,
  joined,
)
from agentrl.text.chat_template import Conversation
from agentrl.text.message import AGENT, Message
from agentrl.text.tool_calls.base import Call, Format, ToolDescription

Ids = tuple[int, ...]


class CallPrompt(NamedTuple):
  """What a call reads."""

  ids: Ids
  agent: tuple[bool, ...]  # of each id: the agent wrote it
  parent: int  # call that it goes on from; -1: none
  foreign: int  # messages of the agent that were rendered, not sampled
  talk: Conversation | None = None  # None: it came as tokens
  digest: bytes = b''  # of the tools and the messages
  messages: tuple[ChatMessage, ...] = ()


@dataclasses.dataclass
class GraphCall:
  """A call: what it read and, once it has finished, what was sampled."""

  prompt: CallPrompt
  budget: int  # tokens that it may sample
  ids: Ids | None = None  # sampled; None: not finished
  talk: Conversation | None = None  # behind what was sampled

  @property
  def size(self) -> int:
    return self.budget if self.ids is None else len(self.ids)


class GraphTurn(NamedTuple):
  """A call in its row."""

  call: int
  start: int  # of its prompt, whose tokens from here on are new in the row
  first: bool  # it begins the row, which repeats all that it read


class MessageGraph:
  """The calls of one session; several may be under way."""

  def __init__(self, talk: ChatFormat, format: Format):
    """Takes format: of tool calls, in what is rendered."""
    self._talk, self._format = talk, format
    self.calls: dict[int, GraphCall] = {}
    # By the digest of a conversation: the call that sampled its last message.
    self._sampled: dict[bytes, int] = {}

  def prompt(
    self,
    messages: Sequence[ChatMessage],
    tools: Sequence[ToolDescription] = (),
  ) -> CallPrompt:
    """Returns the tokens of a conversation, up to where the agent speaks.

    Raises:
      ValueError: the agent has spoken last, or the chat format refuses it.
    """
    whole = tuple(joined(messages))
    if not whole or whole[-1].role == AGENT:
      raise ValueError(
        'the conversation must end with a message that the assistant is to'
        f' answer, and {len(whole)} messages do not'
      )
    prefixes = digests(tools, whole)
    parent, length = self._longest(prefixes)
    talk = self.calls[parent].talk if parent >= 0 else None
    rest = whole[length:]
    begin = _taught(rest, self._format, tools) if talk is None else rest
    names = {call.id: call.name for x in whole for call in x.calls}
    talk = self._extend(talk, begin, names)
    foreign = sum(x.role == AGENT for x in rest)
    return CallPrompt(
      talk.ids, talk.agent, parent, foreign, talk, prefixes[-1], whole
    )

  def prompt_of_tokens(self, ids: Sequence[int]) -> CallPrompt:
    """Makes a prompt of tokens; goes on from the longest call it repeats."""
    ids = tuple(ids)
    best, parent = 0, -1
    for n, call in [*self.calls.items()]:  # others may be opened meanwhile
      if call.ids is None:
        continue
      size = len(call.prompt.ids) + len(call.ids)
      if best < size < len(ids) and ids[:size] == call.prompt.ids + call.ids:
        best, parent = size, n
    agent: tuple[bool, ...] = ()
    if parent >= 0:
      call = self.calls[parent]
      agent = call.prompt.agent + (True,) * call.size
    agent += (False,) * (len(ids) - len(agent))
    return CallPrompt(ids, agent, parent, 0)

  @property
  def next_number(self) -> int:
    """Of the call that is opened next: the lowest that is free."""
    return next(i for i in itertools.count() if i not in self.calls)

  def open(self, prompt: CallPrompt, budget: int) -> int:
    """Begins a call: -> its number."""
    n = self.next_number
    self.calls[n] = GraphCall(prompt, budget)
    return n

  def drop(self, n: int) -> None:
    """Takes back a call that has not finished; it was never made."""
    if self.calls[n].ids is not None:
      raise ValueError(f'call {n} has finished and stays in the tree')
    del self.calls[n]

  def finish(
    self, n: int, ids: Sequence[int], message: ChatMessage | None = None
  ) -> None:
    """Ends a call with what was sampled.

    Args:
      message: as the client was told it, and will repeat it; None: of tokens.
    """
    call = self.calls[n]
    call.ids = tuple(ids)
    if call.prompt.talk is None or message is None:
      return
    call.talk = self._talk.add_reply(call.prompt.talk, call.ids)
    self._sampled.setdefault(digest_after(call.prompt.digest, message), n)

  def turns(self) -> list[GraphTurn]:
    """Returns all calls in the order of their rows, those under way too."""
    chains: dict[int, list[int]] = {}  # by call: of the row that it ends
    rows: list[list[int]] = []
    for n in self.calls:  # as they were opened: parents before children
      chain = chains.pop(self.calls[n].prompt.parent, None)
      if chain is None:
        rows.append(chain := [])
      chain.append(n)
      chains[n] = chain
    return [self._turn(n, i == 0) for row in rows for i, n in enumerate(row)]

  def row_tokens(self) -> int:
    """Counts tokens of all rows; of calls under way, all they may sample."""
    return sum(
      len(self.calls[x.call].prompt.ids) - x.start + self.calls[x.call].size
      for x in self.turns()
    )

  def _turn(self, n: int, first: bool) -> GraphTurn:
    if first:
      return GraphTurn(n, 0, True)
    before = self.calls[self.calls[n].prompt.parent]
    return GraphTurn(n, len(before.prompt.ids) + before.size, False)

  def _longest(self, prefixes: Sequence[bytes]) -> tuple[int, int]:
    """Finds the call that sampled the last known message, and its place."""
    for i in reversed(range(len(prefixes))):
      if (parent := self._sampled.get(prefixes[i])) is not None:
        return parent, i
    return -1, 0

  def _extend(
    self,
    talk: Conversation | None,
    messages: Sequence[ChatMessage],
    names: dict[str, str],
  ) -> Conversation:
    """Extends the conversation by messages that others began and ended."""
    words, (begin, *turns) = self._talk.words, _turns(messages)
    others = _others(begin, self._format, names)
    if talk is not None:
      talk = self._talk.add_messages(talk, others)
    elif others:
      talk = self._talk.start(others)
    else:
      raise ValueError(
        'the conversation begins with a message of the assistant; begin with'
        ' one of the system or the user'
      )
    if not turns:
      return talk
    return self._talk.add_turns(
      talk,
      [
        (
          [*words.encode(_written(own, self._format)), words.eot],
          _others(behind, self._format, names),
        )
        for own, *behind in turns
      ],
    )


def _turns(messages: Iterable[ChatMessage]) -> list[list[ChatMessage]]:
  """Returns the messages, cut before each of the agent's."""
  out: list[list[ChatMessage]] = [[]]
  for x in messages:
    if x.role == AGENT:
      out.append([])
    out[-1].append(x)
  return out


def _taught(
  messages: Sequence[ChatMessage],
  format: Format,
  tools: Sequence[ToolDescription],
) -> Sequence[ChatMessage]:
  """Puts the tools into one system message at the messages' beginning."""
  count = sum(1 for _ in itertools.takewhile(_by_system, messages))
  texts = [x.text for x in messages[:count]]
  texts += [format.teach(tools)] if tools else []
  begin = [ChatMessage('system', '\n'.join(texts))] if texts else []
  return [*begin, *messages[count:]]


def _by_system(message: ChatMessage) -> bool:
  return message.role == 'system'


def _others(
  messages: Iterable[ChatMessage], format: Format, names: dict[str, str]
) -> list[Message]:
  """Returns messages that the agent hears; successive tool results as one."""
  out: list[Message] = []
  for tool, group in itertools.groupby(messages, lambda x: x.role == 'tool'):
    if tool:
      answers = [(names.get(x.answers, 'tool'), x.text) for x in group]
      out.append(Message(format.role, format.answer(answers)))
    else:
      out += [Message(x.role, x.text) for x in group]
  return out


def _written(message: ChatMessage, format: Format) -> str:
  """Returns the text of a message of the agent that was not sampled here."""
  if not message.calls:
    return message.text
  try:
    calls = [Call(x.name, json.loads(x.arguments)) for x in message.calls]
    written = format.write(calls)
  except (ValueError, TypeError, AttributeError, RecursionError):
    written = '\n'.join(f'{x.name} {x.arguments}' for x in message.calls)
  return f'{message.text}\n{written}' if message.text else written
