"""The log's words for trajectories that were kept; on the host, in NumPy."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from agentrl.log.sample import Kept
from agentrl.text.tokenizer import Tokenizer
from agentrl.types import Rows, Status

WHO = ('policy', 'replay', 'demonstration')  # by ids['source']


def trajectories(
  kept: Kept, tokenizer: Tokenizer, *, step: int, phase: str
) -> Iterator[dict[str, Any]]:
  """The log's words for what was kept; host arrays."""
  turns = kept.turns
  for i in np.flatnonzero(np.any(turns.valid, axis=1)):
    ids = {name: int(x[i]) for name, x in kept.ids.items()}
    places = _places(kept.rows, i)
    told = [
      _turn(kept, tokenizer, i, k, places[k], WHO[ids['source']])
      for k in np.flatnonzero(turns.valid[i])
      if k in places
    ]
    yield {
      'phase': phase,
      'step': step,
      'task': ids.pop('task'),
      'group': ids.pop('group'),
      'member': int(kept.member[i]),
      'status': Status(int(kept.status[i])).name.lower(),
      'outcome': _number(kept.outcome[i]),
      'reward': _number(turns.reward[i][turns.valid[i]].sum()),
      'ids': ids,
      'signals': _numbers(kept.whole, i),
      'turns': told,
    }


def _places(rows: Rows, i: int) -> dict[int, tuple[int, int, int, int]]:
  """turn -> row, and the columns where context, message and what follows begin.

  The context of a turn is what its segment has before the message, after the
  message of the turn before it.
  """
  found = {}
  for r in np.flatnonzero(np.any(rows.traj == i, axis=1)):
    here, last = rows.traj[r] == i, 0
    said = np.where(here & rows.sampled[r], rows.turn[r], -1)
    for k in dict.fromkeys(said[said >= 0].tolist()):
      columns = np.flatnonzero(said == k)
      first = int(columns[0])
      begin = int(np.argmax(here & (rows.seg[r] == rows.seg[r, first])))
      begin, last = max(begin, last), int(columns[-1]) + 1
      found[k] = (int(r), begin, first, last)
  return found


def _turn(kept: Kept, tokenizer, i: int, k: int, place, who: str) -> dict:
  r, begin, first, last = place
  rows, turns = kept.rows, kept.turns
  span = rows.span[r, first:last].tolist()
  return {
    'k': int(k),
    'node': int(turns.node[i, k]),
    'state': int(turns.state[i, k]),
    'agent': int(turns.agent[i, k]),
    'version': int(rows.version[r, first]),
    'read': _text(tokenizer, rows.tokens[r, begin:first]),
    'said': _said(tokenizer, rows.tokens[r, first:last], span, who),
    'reward': _number(turns.reward[i, k]),
    'scored': bool(turns.scored[i, k]),
    'terms': _numbers(turns.terms, (i, k)),
    'signals': _numbers(kept.turn, (i, k)),
    'token': {
      name: _listed(x)
      for name, x in _heads(kept.token, (r, slice(first, last)))
    },
  }


def _text(tokenizer: Tokenizer, tokens: np.ndarray) -> dict[str, Any]:
  tokens = tokens.tolist()
  return {'text': tokenizer.decode(tokens), 'tokens': tokens}


def _said(tokenizer, tokens: np.ndarray, span: list[int], who: str) -> dict:
  told = {**_text(tokenizer, tokens), 'who': who}
  told['pieces'] = tokenizer.pieces(told['tokens'])
  return told | ({'span': span} if any(span) else {})


def _heads(fields: Mapping[str, np.ndarray], at) -> Iterator[tuple]:
  """(name, value) at a place; several heads have a name each."""
  rank = len(at) if isinstance(at, tuple) else 1
  for name, x in fields.items():
    if x.ndim == rank:
      yield name, x[at]
    else:
      yield from ((f'{name}.{h}', x[..., h][at]) for h in range(x.shape[-1]))


def _numbers(fields: Mapping[str, np.ndarray], at) -> dict[str, float]:
  return {name: _number(x) for name, x in _heads(fields, at)}


def _listed(x: np.ndarray) -> list[float]:
  return [_number(v) for v in x.tolist()]


def _number(x) -> float:
  """The shortest float that is still this float32."""
  return float(f'{float(x):.9g}')
