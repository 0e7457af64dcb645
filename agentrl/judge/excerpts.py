"""Excerpts of an item: what stands between tags, and what tools returned."""

import re
from collections.abc import Sequence
from typing import Any

from agentrl.judge.item import Item, JudgeFault
from agentrl.text.tool_calls.base import spoken

TAG = re.compile(r'<(/?)([A-Za-z][\w-]*)>')


def messages(item: Item) -> list[str]:
  """Returns the agent's messages to judge: one, or all of a trajectory."""
  turns = item.turns if item.turn < 0 else (item.here,)
  return [turn.message for turn in turns]


def between(text: str, tag: str) -> list[str]:
  """Finds texts between <tag> and the next </tag>, without outer space."""
  name = re.escape(tag)
  texts = re.findall(f'<{name}>(.*?)</{name}>', text, re.DOTALL)
  return [x.strip() for x in texts]


def answer(item: Item, tag: str) -> str | None:
  """Returns the last answer outside of thought; None where there is none.

  Args:
    tag: that the answer stands in; '': it is the whole last message
  """
  texts = messages(item)
  if not tag:
    return spoken(texts[-1]).strip() if texts else None
  return last([spoken(x) for x in texts], tag)


def last(texts: Sequence[str], tag: str) -> str | None:
  """Returns the last text between such tags; None where there is none."""
  every = [x for text in texts for x in between(text, tag)]
  return every[-1] if every else None


def evidence(item: Item) -> list[str]:
  """Returns the environment's answers up to now, but not what it first showed.

  The first observation is the task: what stands in it was not looked up.
  """
  end = item.turn + 1 if item.turn >= 0 else len(item.turns)
  observations = [turn.observation for turn in item.turns[1:end]]
  return [*observations, item.answer] if item.answer else observations


def accepted(item: Item, field: str) -> tuple[str, ...]:
  """Returns the gold answers in a task's field: a text or number, or several.

  Raises:
    JudgeFault: there are none.
  """
  value: Any = item.task.get(field)
  several = isinstance(value, list | tuple)
  values = tuple(map(str, value if several else [value]))
  if value is None or not values:
    raise JudgeFault(f'the task has no {field} to compare with')
  return values
