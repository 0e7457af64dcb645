"""Converts sampled trajectories to JSON records on the host."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from agentrl import segment
from agentrl.judge.item import trajectory_key
from agentrl.judge.panel import Judgement
from agentrl.log.sample import TrajectorySample
from agentrl.ops import counting
from agentrl.text.tokenizer import Tokenizer
from agentrl.types import Rows, Span, Status

WHO = ('policy', 'replay', 'demonstration')  # by ids['source']
GIVEN = 'prefix'  # who wrote a message that the policy was given


def trajectories(
  sample: TrajectorySample,
  tokenizer: Tokenizer,
  *,
  step: int,
  phase: str,
  verdicts: Callable[[str], Sequence[Judgement]] = lambda key: (),
) -> Iterator[dict[str, Any]]:
  """Yields the JSON record of each sampled trajectory; host arrays.

  Args:
    verdicts: those of judges on a trajectory, by item.trajectory_key
  """
  turns = sample.turns
  for i in np.flatnonzero(np.any(turns.valid, axis=1)):
    ids = {name: int(x[i]) for name, x in sample.ids.items()}
    places = _places(sample.rows, i)
    records = [
      _turn(sample, tokenizer, i, k, places[k], WHO[ids['source']])
      for k in np.flatnonzero(turns.valid[i])
      if k in places
    ]
    key = trajectory_key(
      *([turn[x]['tokens'] for turn in records] for x in ('read', 'said'))
    )
    whole = []
    for verdict in verdicts(key):
      turns_of = [x for x in records if x['k'] == verdict.turn]
      for x in turns_of:
        x.setdefault('judged', []).append(_judged(verdict))
      whole += [] if turns_of else [_judged(verdict)]
    yield {
      'phase': phase,
      'step': step,
      'task': ids.pop('task'),
      'group': ids.pop('group'),
      'member': int(sample.member[i]),
      'status': Status(int(sample.status[i])).name.lower(),
      'outcome': _number(sample.outcome[i]),
      'reward': _number(turns.reward[i][turns.valid[i]].sum()),
      'ids': ids,
      'history': _history(sample.rows, places),
      'signals': _numbers(sample.whole, i),
      'turns': records,
    } | ({'judged': whole} if whole else {})


def _judged(x: Judgement) -> dict[str, Any]:
  """Encodes a judge's verdict, with what it was asked and answered."""
  out = {'judge': x.judge, 'term': x.term, 'score': _number(x.score)}
  out |= {'fault': x.fault} if x.fault else {}
  questions = [{'prompt': p, 'answer': a} for p, a in x.questions]
  return out | ({'questions': questions} if questions else {})


def _places(rows: Rows, i: int) -> dict[int, tuple[int, int, int, int]]:
  """Maps turn -> row, and the columns where context, message and rest begin.

  The context of a turn is what its segment has before the message, after the
  message of the turn before it.
  """
  places = {}
  for r in np.flatnonzero(np.any(rows.traj == i, axis=1)):
    here, last = rows.traj[r] == i, 0
    inside = here & np.asarray(segment.in_message(rows))[r]
    turns = np.where(inside, rows.turn[r], -1)
    for k in dict.fromkeys(turns[turns >= 0].tolist()):
      columns = np.flatnonzero(turns == k)
      first = int(columns[0])
      begin = int(np.argmax(here & (rows.seg[r] == rows.seg[r, first])))
      begin, last = max(begin, last), int(columns[-1]) + 1
      places[k] = (int(r), begin, first, last)
  return places


def _history(rows: Rows, places: dict[int, tuple[int, int, int, int]]) -> str:
  """Returns 'turn' if several turns have a row each, 'full' if they share one.

  'tree' if they share one that has segments.
  """
  at = [(r, int(rows.seg[r, first])) for r, _, first, _ in places.values()]
  own = {r for r, _ in at}
  if len(own) < len(set(at)):
    return 'tree'
  return 'turn' if 1 < len(places) == len(own) else 'full'


def _turn(
  sample: TrajectorySample, tokenizer, i: int, k: int, place, who: str
) -> dict:
  r, begin, first, last = place
  rows, turns = sample.rows, sample.turns
  context = _text(tokenizer, rows.tokens[r, begin:first])
  span = rows.span[r, first:last].tolist()
  who = GIVEN if Span.PREFIX in span else who
  message = _text(tokenizer, rows.tokens[r, first:last]) | {'who': who}
  message['pieces'] = tokenizer.pieces(message['tokens'])
  version = rows.version[r, first:last]
  late = counting.late_terms(turns.terms)
  terms = {name: x for name, x in turns.terms.items() if name not in late}
  return {
    'k': int(k),
    'node': int(turns.node[i, k]),
    'state': int(turns.state[i, k]),
    'agent': int(turns.agent[i, k]),
    'version': int(rows.version[r, first]),
    'read': context | _unless_all(0, span=rows.span[r, begin:first]),
    'said': message
    | ({'span': span} if any(span) else {})
    | _unless_all(1.0, weight=rows.weight[r, first:last])
    | _unless_all(int(rows.version[r, first]), version=version),
    'reward': _number(turns.reward[i, k]),
    'scored': bool(turns.scored[i, k]),
    'terms': _numbers(terms, (i, k)),
    'signals': _numbers(sample.turn, (i, k)),
    'token': {
      name: [_number(v) for v in x.tolist()]
      for name, x in _heads(sample.token, (r, slice(first, last)))
    },
  }


def _unless_all(usual: float, **field: np.ndarray) -> dict[str, Any]:
  """Returns token values by name; one number where all of them equal it.

  Nothing where all are the usual one.
  """
  ((name, x),) = field.items()
  if np.all(x == usual):
    return {}
  number = int if np.issubdtype(x.dtype, np.integer) else _number
  return {name: number(x[0]) if np.all(x == x[0]) else [*map(number, x)]}


def _text(tokenizer: Tokenizer, tokens: np.ndarray) -> dict[str, Any]:
  tokens = tokens.tolist()
  return {'text': tokenizer.decode(tokens), 'tokens': tokens}


def _heads(fields: Mapping[str, np.ndarray], at) -> Iterator[tuple]:
  """Yields (name, value) at a place; several heads have a name each."""
  rank = len(at) if isinstance(at, tuple) else 1
  for name, x in fields.items():
    if x.ndim == rank:
      yield name, x[at]
    else:
      yield from ((f'{name}.{h}', x[..., h][at]) for h in range(x.shape[-1]))


def _numbers(fields: Mapping[str, np.ndarray], at) -> dict[str, float]:
  return {name: _number(x) for name, x in _heads(fields, at)}


def _number(x) -> float:
  """Returns the shortest float that is still this float32."""
  return float(f'{float(x):.9g}')
