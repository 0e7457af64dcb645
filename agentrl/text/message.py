"""A message of a conversation, and who is the model in it."""

from typing import NamedTuple

AGENT = 'assistant'


class Message(NamedTuple):
  """One turn; who speaks is 'system', 'user', 'assistant', 'tool', ..."""

  role: str
  content: str
