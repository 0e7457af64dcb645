"""Spans of the tokens that a model writes and reads in host environments."""

from collections.abc import Callable, Sequence

from agentrl.text import chat_format, spans
from agentrl.text.tokenizer import Tokenizer
from agentrl.types import Span


def split(
  words: Tokenizer, ids: Sequence[int], action_prefix: str
) -> tuple[str, str]:
  """Splits a message's text: up to the last prefix, and the action behind it.

  Without a prefix, or where it does not stand, the whole text is the action.
  """
  text = chat_format.content(words, ids)
  action = text.rpartition(action_prefix)[2] if action_prefix else text
  return text[: len(text) - len(action)], action


def of_message(
  mark: Callable[[str], Sequence[spans.Interval]],
  words: Tokenizer,
  ids: Sequence[int],
  action_prefix: str = '',
) -> list[Span]:
  """Gives each token of a message its `Span`, its end of turn included: OTHER.

  Calls and answers are those of the action, which is what environments see.

  Args:
    mark: the parts of an action, as `env.base.spans` has them of a family
  """
  before, action = split(words, ids, action_prefix)
  thoughts = (x for x in spans.mark(before) if x.part == 'thought')
  acted = (
    x._replace(start=x.start + len(before), end=x.end + len(before))
    for x in mark(action)
  )
  parts = spans.to_tokens(words, ids, [*thoughts, *acted])
  return [Span[part.upper()] for part in parts]


def of_context(agent: Sequence[bool]) -> list[int]:
  """Marks INFORMATION on what the agent reads; OTHER on its own words repeated.

  Args:
    agent: of each token, whether the agent wrote it
  """
  return [Span.OTHER if own else Span.INFORMATION for own in agent]
