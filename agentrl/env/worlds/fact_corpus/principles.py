"""Scripted writer of principles: what solved attempts have in common.

It reads what a memory of texts asks about a group, and nothing else. Names are
taken out of the question and of what was called, so that

  Bako's home's mayor?  <bm25>Bako home</bm25>  <bm25>Tebu mayor</bm25>

becomes a principle of every question about a home's mayor:

  _'s home's mayor? bm25 _ home; bm25 _ mayor

of the shortest solved attempt, and of the first one, behind `not`, where none
was solved.
"""

import json
import re
from collections.abc import Sequence

from agentrl.env import asking
from agentrl.service.base import ServiceFault
from agentrl.text.message import Message

_ATTEMPT = re.compile(r'^Attempt \d+ \((solved|not solved)\):\n', re.MULTILINE)
_QUESTION = re.compile(
  r'^(?:\[user\] )?([^\n]*\?)\n\[assistant\]', re.MULTILINE
)
_SAID = re.compile(r'^\[assistant\] (.*?)(?=^\[user\] |\Z)', re.M | re.S)
_CALL = re.compile(r'<(\w+)>([^<]*)</\1>')
_NAME = re.compile(r'\b[A-Z]\w*')
# Tags that call nothing, or only a memory.
_OWN = ('answer', 'note', 'evidence', asking.EXPERIENCE.name)


def distill(messages: Sequence[Message], *, seed: int) -> str:
  """Writes one principle about a group, as a list of operations.

  Raises:
    ServiceFault: it was not asked about attempts at a question.
  """
  del seed  # nothing is random
  _, *parts = _ATTEMPT.split(messages[-1].content)
  told = [*zip(parts[::2], parts[1::2], strict=True)]
  asked = _QUESTION.search(told[0][1]) if told else None
  if not asked:
    raise ServiceFault('the writer was not asked about attempts at a question')
  solved = [_calls(text) for how, text in told if how == 'solved']
  some = min(solved, key=len) if solved else _calls(told[0][1])
  called = '; '.join(some) or 'no call'
  text = f'{asked[1]} {called if solved else f"not {called}"}'
  return json.dumps([{'op': 'ADD', 'text': _NAME.sub('_', text)}])


def _calls(text: str) -> list[str]:
  """Returns what the agent called in an attempt, in order."""
  said = ''.join(_SAID.findall(text))
  return [f'{x} {query}' for x, query in _CALL.findall(said) if x not in _OWN]
