"""Messages as clients write them, and digests that tell conversations apart.

Arguments of calls are compared as values of JSON, with the numbers that most
clients read: 1, 1.0 and 1e0 are equal, and so are integers that one double
stands for.
"""

import hashlib
import itertools
import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from agentrl.text.message import AGENT
from agentrl.text.tool_calls.base import ToolDescription


class ToolUse(NamedTuple):
  """A call of a tool, as clients write it."""

  id: str
  name: str
  arguments: str  # canonical JSON; other text as it came


class ChatMessage(NamedTuple):
  """A message by what it says; equal: the same message."""

  role: str
  text: str
  calls: tuple[ToolUse, ...] = ()
  answers: str = ''  # id of the call whose result it is


def canonical_json(value: Any) -> str:
  """Writes JSON that is equal for equal values."""
  return json.dumps(
    value, sort_keys=True, ensure_ascii=False, separators=(',', ':')
  )


def digests(
  tools: Sequence[ToolDescription], messages: Iterable[ChatMessage]
) -> list[bytes]:
  """Digests the tools, and the conversation up to each message."""
  text = canonical_json([[x.name, x.description, x.schema] for x in tools])
  first = hashlib.sha256(text.encode()).digest()
  return list(itertools.accumulate(messages, digest_after, initial=first))


def digest_after(digest: bytes, message: ChatMessage) -> bytes:
  """Returns the digest of a conversation once a message stands behind it."""
  calls = [
    x._replace(arguments=_comparable(x.arguments)) for x in message.calls
  ]
  content = repr((digest, message._replace(calls=tuple(calls))))
  return hashlib.sha256(content.encode()).digest()


def _comparable(arguments: str) -> str:
  """Returns text that is equal for arguments of equal value."""
  try:
    value = json.loads(arguments, parse_int=_double, parse_float=_double)
    return canonical_json(value)
  except (ValueError, RecursionError):
    return arguments


def _double(digits: str) -> float:
  return float(digits) + 0.0  # no -0.0, which some clients write as 0


def joined(messages: Iterable[ChatMessage]) -> Iterable[ChatMessage]:
  """Joins messages of the agent that follow each other into one."""
  for own, group in itertools.groupby(messages, lambda x: x.role == AGENT):
    several = list(group)
    if not own or len(several) == 1:
      yield from several
      continue
    text = '\n'.join(x.text for x in several if x.text)
    yield ChatMessage(AGENT, text, tuple(c for x in several for c in x.calls))
