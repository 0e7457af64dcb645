"""Archive of texts that a service proposes one by one, under one budget.

A step shows a service what is there, evaluates the text that it proposes and
keeps both, whatever the text is worth:

    text ~ propose(archive),   verdict = evaluate(text),   both are kept

A text may be an instruction, a program or a description of a workflow. What
evaluates it says what it is worth, what that cost, and what the next proposal
should read of it: why a program was refused, where its attempts failed.
Nothing is learned but what to keep.

The archive is written after every step, and random numbers come from (seed,
step), so that a search that is cut off ends as if it had not been.
"""

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from absl import logging

from agentrl.runtime import storage
from agentrl.service.base import Service, ServiceFault
from agentrl.text.message import Message

REQUEST = (
  'Each line has a text, what it was worth and what was seen of it. Answer with'
  ' one new text that should be worth more, and nothing else.'
)


State = TypeVar('State')


class Verdict(NamedTuple):
  """What a text is worth."""

  value: float  # NaN: below every other
  cost: int  # of the budget
  said: str = ''  # what the next proposal reads of it


class Entry(NamedTuple):
  """A text and its verdict."""

  text: str
  value: float
  cost: int
  said: str


class Archive(NamedTuple):
  """A search between two steps."""

  entries: tuple[Entry, ...] = ()  # in their order
  spent: int = 0
  faults: int = 0  # proposals that the service failed to make


# (text, seed) -> its verdict
Evaluate = Callable[[str, int], Verdict]
# What the service is asked, of what is there.
Ask = Callable[[Archive], Sequence[Message]]


def messages(archive: Archive) -> list[Message]:
  """Returns a line of JSON for each entry: the lowest first, the best last."""
  lines = [
    json.dumps(
      {'text': x.text, 'value': round(_ordered(x.value), 4), 'said': x.said}
    )
    for x in sorted(archive.entries, key=lambda x: _ordered(x.value))
  ]
  return [Message('system', REQUEST), Message('user', '\n'.join(lines))]


def read(asked: Sequence[Message]) -> list[Entry]:
  """Reads the entries of a request: what scripted proposers begin with."""
  lines = [json.loads(line) for line in asked[-1].content.splitlines()]
  return [Entry(x['text'], x['value'], 0, x['said']) for x in lines]


def best(archive: Archive) -> Entry:
  """Returns the entry of the highest value; of equals the oldest.

  Raises:
    ValueError: there is no entry.
  """
  if not archive.entries:
    raise ValueError('archive must have 1 entry or more, got none')
  return max(archive.entries, key=lambda x: _ordered(x.value))


def _ordered(value: float) -> float:
  """Returns a value that can be compared: -inf for NaN."""
  return -math.inf if math.isnan(value) else value


def search(
  first: Sequence[str],
  evaluate: Evaluate,
  propose: Service,
  ask: Ask = messages,
  *,
  budget: int,
  most: int,
  seed: int,
  path: str | os.PathLike[str] | None = None,
  name: str = '',
) -> Archive:
  """Evaluates the first texts, then proposals, until the budget is spent.

  A proposal that the service fails to make costs 1, as does at least a text
  that is refused, so that a search ends whatever is proposed.

  Args:
    budget: of all evaluations, `most` or more
    most: what one may cost; a step that might exceed the budget is not taken
    path: file of the archive; a search that it holds goes on
    name: what tells the search from others of these texts and this seed, of
      another proposer or evaluation: study and arm; needed with `path`

  Raises:
    ValueError: there is no first text, the budget has no room for one, an
      evaluation costs more than `most`, or the file is damaged or of another
      search.
  """
  if not first or most < 1:
    raise ValueError(
      f'first must be 1 text or more and most >= 1, got {len(first)} texts and'
      f' most={most}'
    )
  if budget < most:
    raise ValueError(
      f'budget must be at least most={most}, what the first text may cost, got'
      f' {budget}'
    )
  head = {'name': name, 'first': [*first], 'most': most, 'seed': seed}
  archive = loaded(path, head, _of_json) or Archive()
  while archive.spent + most <= budget:
    archive = _step(archive, first, evaluate, propose, ask, seed)
    if archive.entries and archive.entries[-1].cost > most:
      raise ValueError(
        f'cost of an evaluation must be at most {most}, got'
        f' {archive.entries[-1].cost}'
      )
    if path:
      saved(path, head, archive)
  return archive


def _step(
  archive: Archive,
  first: Sequence[str],
  evaluate: Evaluate,
  propose: Service,
  ask: Ask,
  seed: int,
) -> Archive:
  step = len(archive.entries) + archive.faults
  if len(archive.entries) < len(first):
    text = first[len(archive.entries)]
  else:
    try:
      text = propose(ask(archive), seed=draw_seed(seed, step, 1))
    except ServiceFault as fault:
      logging.warning('no proposal at step %d: %s', step, fault)
      return archive._replace(
        faults=archive.faults + 1, spent=archive.spent + 1
      )
  value, cost, said = evaluate(text, draw_seed(seed, step, 2))
  new = Entry(text, _ordered(float(value)), max(int(cost), 1), said)
  return archive._replace(
    entries=(*archive.entries, new), spent=archive.spent + new.cost
  )


def draw_seed(seed: int, step: int, use: int) -> int:
  """Draws the seed of a use: 0 attempts, 1 a proposal, 2 its evaluation."""
  return int(np.random.default_rng([seed, step, use]).integers(2**31))


def saved(
  path: str | os.PathLike[str], head: Mapping[str, Any], state: Any
) -> None:
  """Writes the state of a search, beside what tells it from others."""
  storage.write(path, json.dumps({**head, 'state': state}) + '\n')


def loaded(
  path: str | os.PathLike[str] | None,
  head: Mapping[str, Any],
  state_of: Callable[[list[Any]], State],
) -> State | None:
  """Reads the state of a search; None without a file.

  Args:
    head: what tells the search from others, its `name` among them
    state_of: makes the state of what JSON holds of it; of what it cannot be
      made of it raises ValueError, TypeError or LookupError

  Raises:
    ValueError: the search has no name, or the file is damaged or of another
      search.
  """
  if not path:
    return None
  if not head['name']:
    raise ValueError(
      f'name must tell the search in {os.fspath(path)} from others, got'
      f' {head["name"]!r}'
    )
  if not storage.path(path).exists():
    return None
  try:
    held = dict(json.loads(storage.read(storage.path(path))))
    state = state_of(held.pop('state'))
  except (ValueError, TypeError, LookupError, RecursionError) as error:
    raise ValueError(
      f'{os.fspath(path)} must hold a search, got a damaged file'
      f' ({type(error).__name__}); remove it or name another'
    ) from error
  if held != head:
    names = ', '.join(x for x in head if held.get(x) != head[x])
    raise ValueError(
      f'{os.fspath(path)} must hold this search, got one of other {names}; name'
      ' another file'
    )
  return state


def restored(kind: type[Any], values: Any, kinds: Sequence[type]) -> Any:
  """Makes a record of its values; an int may stand for a float.

  Raises:
    TypeError: there are more or fewer, or of other types.
  """
  if not isinstance(values, list) or len(values) != len(kinds):
    raise TypeError(f'{kind.__name__} must have {len(kinds)} values')
  for x, want in zip(values, kinds, strict=True):
    if type(x) is not want and (want, type(x)) != (float, int):
      raise TypeError(f'{kind.__name__} must have a {want.__name__}, got {x!r}')
  return kind(*values)


def _of_json(held: list[Any]) -> Archive:
  entries = tuple(restored(Entry, x, (str, float, int, str)) for x in held[0])
  return restored(Archive, held, (list, int, int))._replace(entries=entries)
