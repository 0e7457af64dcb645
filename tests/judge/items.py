"""Items, scripted services and texts that judges might answer with."""

import itertools
import math
from collections.abc import Callable

from hypothesis import strategies as st

from agentrl.judge.item import Exchange, Item, JudgeInputs
from agentrl.service.base import ServiceFault


def item_of(*talk, turn=-1, outcome=1.0, terms=(), **task):
  """An item of 'observation', 'message', 'observation', 'message', ..."""
  terms = list(terms) or [{}] * (len(talk) // 2)
  turns = itertools.starmap(
    Exchange, zip(talk[::2], talk[1::2], terms, strict=True)
  )
  return Item(task, tuple(turns), turn, outcome)


TALK = ('go?', 'left', 'a "wall", it seems', 'up', 'free\nat last', 'stop')
WHOLE = item_of(*TALK)


class Script:
  """An `Ask` that answers with a text, or with a function of the prompt."""

  def __init__(self, answer: str | Callable[[str], str]):
    self._answer, self.prompts, self.computed = answer, [], 0
    self._cache: dict[str, str] = {}

  def __call__(self, prompt: str) -> str:
    self.prompts.append(prompt)
    return self._answer(prompt) if callable(self._answer) else self._answer

  def cached(self, content, compute):
    if content not in self._cache:
      self.computed += 1
      self._cache[content] = compute()
    return self._cache[content]


def asked(what: Item | tuple[Item, ...], ask) -> JudgeInputs:
  """Asks about an item, or about those of a group."""
  items = (what,) if isinstance(what, Item) else what
  return JudgeInputs(items=items, ask=ask)


def refuse(*_, **__):
  raise ServiceFault('the budget was spent')


# Of these most texts are made that almost have the form of an answer.
_PIECES = (
  *'0123456789',
  *'ABCDE.,:;)(][}{|/%+-−–*_`"\'= \n',
  '10', '1e400', 'nan', 'inf', '1_0', '٣', '½', '²', '00', '0.5', '-1', '1.',
  'yes', 'no', 'good', 'bad', 'not ', 'true', 'false', 'null', 'never',
  ' or ', ' of ', ' out of ', ' to ', 'percent', '```json\n', '\n```', '“',
  '1: ', '\n2: ', '\n3: ', '{"1": ', '", "2": ', '[true, ', '\ud800', 'İ',
  '9' * 400, '9' * 5000, '[' * 2000,
)  # fmt: skip
ANSWERS = st.one_of(
  st.text(max_size=60),
  st.lists(st.sampled_from(_PIECES), max_size=14).map(''.join),
)


def is_share(x: float) -> bool:
  return type(x) is float and math.isfinite(x) and 0 <= x <= 1


def cases(text: str) -> list[str]:
  """Answers, ';' or a line's end between two."""
  return text.strip('\n').replace('\n', ';').split(';')
