"""Format checks: tags that stand once, in order, closed. No model is needed."""

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Annotated

from agentrl import registry
from agentrl.domain import COUNT, Name, Named, Text, Tuple
from agentrl.judge import excerpts
from agentrl.judge.item import Item, JudgeFault, JudgeInputs
from agentrl.judge.verdicts import GIVES, Unit

Tags = Annotated[tuple[str, ...], Tuple(Name('a tag'), least=1, once=True)]
Words = Annotated[tuple[str, ...], Tuple(Text(empty=False))]
_SELF_SEARCH = ('think', 'search', 'information', 'answer')
_MOST_THOUGHTS = 8  # of a self-search


def places(text: str, name: str) -> tuple[int, int] | None:
  """Finds where the one <name> and the one </name> after it begin, or None."""
  first, end = text.find(f'<{name}>'), text.find(f'</{name}>')
  once = text.count(f'<{name}>') == text.count(f'</{name}>') == 1
  return (first, end) if once and first < end else None


@registry.register('judge', gives=GIVES)
def tag_share(
  x: JudgeInputs,
  *,
  term: Named = 'format',
  unit: Unit = 'turn',
  tags: Tags = ('think', 'answer'),
) -> float:
  """|tags that are opened once and closed once after that| / |tags|

  Args:
    term: what it fills
    unit: 'turn', a message, or 'trajectory', all messages after one another
    tags: names
  """
  text = '\n'.join(excerpts.messages(x.item))
  return sum(places(text, name) is not None for name in tags) / len(tags)


@registry.register('judge', gives=GIVES)
def tags_in_order(
  x: JudgeInputs,
  *,
  term: Named = 'format',
  unit: Unit = 'turn',
  tags: Tags = ('think', 'answer'),
) -> float:
  """Returns 1 where each tag stands once, closed before the next one, or 0.

  Args:
    term, unit: as of `tag_share`
    tags: names, in the order in which they have to stand
  """
  text = '\n'.join(excerpts.messages(x.item))
  every = [places(text, name) for name in tags]
  flat = [place for pair in every if pair for place in pair]
  return float(None not in every and flat == sorted(flat))


@registry.register('judge', gives=GIVES)
def field_layout(
  x: JudgeInputs,
  *,
  term: Named = 'format',
  fields: Tags = ('think', 'tool_call', 'response'),
  blocks: Annotated[tuple[str, ...], Tuple(Name('a tag'))] = ('tool_call',),
  gold: Annotated[str, Text('a field of the task')] = '',
) -> float:
  """Returns 1 if the message is its fields, once each, line breaks between.

  The format reward of ToolRL (arXiv 2504.13958), a match of the whole message.
  The first field has to stand; of the others those that the gold answer has,
  and no other of them.

  Args:
    term: what it fills
    fields: tags, in their order
    blocks: fields whose tags stand on lines of their own
    gold: field of the task with the gold answer, a text with such tags or a
      mapping of fields; '': all fields have to stand
  """
  has = _gold_fields(x.item, gold, fields)
  wanted = [name for name in fields if name == fields[0] or name in has]
  parts = []
  for name in wanted:
    space = '\n' if name in blocks else ''
    parts.append(f'<{name}>{space}.*?{space}</{name}>')
  text = x.item.here.message.strip()
  matches = re.fullmatch('\n'.join(parts), text, re.DOTALL) is not None
  once = all(places(text, name) is not None for name in wanted)
  others = (name for name in fields if name not in wanted)
  foreign = any(f'<{name}>' in text or f'</{name}>' in text for name in others)
  return float(matches and once and not foreign)


def _gold_fields(item: Item, gold: str, fields: Sequence[str]) -> list[str]:
  """Returns the fields of the gold answer; all of them without one."""
  if not gold:
    return list(fields)
  value = item.task.get(gold)
  if isinstance(value, str):
    return [x for x in fields if f'<{x}>' in value]
  if isinstance(value, Mapping):
    return [x for x in fields if value.get(x)]
  raise JudgeFault(f'the task has no {gold} whose fields can be read')


@registry.register('judge', gives=GIVES)
def thought_length(
  x: JudgeInputs,
  *,
  term: Named = 'thought_length',
  unit: Unit = 'turn',
  tag: Named = 'think',
  limit: Annotated[int, COUNT] = 512,
) -> float:
  """min(1, words of the last thought / limit), ToolRL's length reward.

  Args:
    term, unit: as of `tag_share`
    tag: of thoughts
    limit: words from which on it is 1
  """
  thought = excerpts.last(excerpts.messages(x.item), tag) or ''
  return min(1.0, len(thought.split()) / limit)


@registry.register('judge', gives=GIVES)
def self_search_layout(
  x: JudgeInputs,
  *,
  term: Named = 'format',
  unit: Unit = 'trajectory',
  placeholders: Words = (
    '...',
    'query',
    'your query',
    'search query',
    'information',
    'answer',
    'your answer',
  ),
) -> float:
  """F = min(1, n_t / 2) · min(n_t, n_s + 1) / max(n_t, n_s + 1), or 0

  n_t thoughts and n_s searches of a model that is its own search engine (SSRL,
  arXiv 2508.10874). F is 0 with more than 8 thoughts, and where the text is
  not made of think, search, information and answer alone, each closed before
  the next, does not begin with a thought or end with an answer, has a search
  whose information does not come next, a query of several lines, or a
  placeholder.

  Args:
    term, unit: as of `tag_share`
    placeholders: texts that stand for what should have been written; to write
      nothing is one, too
  """
  text = '\n'.join(excerpts.messages(x.item)).strip()
  parts = blocks_of(text)
  if not parts or not _is_self_search(text, parts, placeholders):
    return 0.0
  names = [name for name, _ in parts]
  thoughts, searches = names.count('think'), names.count('search') + 1
  if thoughts > _MOST_THOUGHTS:
    return 0.0
  few, many = sorted((thoughts, searches))
  return min(1.0, thoughts / 2) * few / many


def blocks_of(text: str) -> list[tuple[str, str]] | None:
  """Lists (tag, text) in order; None where one is not closed before the next.

  What stands between blocks is passed over.
  """
  marks = list(excerpts.TAG.finditer(text))
  out = []
  for first, end in itertools.zip_longest(marks[::2], marks[1::2]):
    if end is None or first[1] or not end[1] or first[2] != end[2]:
      return None
    out.append((first[2], text[first.end() : end.start()].strip()))
  return out


def _is_self_search(
  text: str, parts: list[tuple[str, str]], placeholders: Sequence[str]
) -> bool:
  names = [name for name, _ in parts]
  queries = [x for name, x in parts if name == 'search']
  empty = {'', *(x.casefold() for x in placeholders)}
  after = re.compile(r'</search>(?!\s*<information>)')
  return (
    set(names) <= set(_SELF_SEARCH)
    and text.startswith('<think>')
    and text.endswith('</answer>')
    and not after.search(text)
    and not any('\n' in x for x in queries)
    and not any(x.casefold() in empty for _, x in parts)
  )
