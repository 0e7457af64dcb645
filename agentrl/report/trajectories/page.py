"""Trajectory viewer: lists, the page, and a standalone file.

Trajectories are untrusted: models and environments wrote them. They travel as
JSON, the page inserts them as text, and its Content-Security-Policy allows only
its own script and style by hash, so nothing else can run or be loaded.
"""

import base64
import hashlib
import html
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agentrl.log import shards, trajectories
from agentrl.runtime import storage
from agentrl.types import Span, Status

PAGE = 100  # trajectories of one page of the list
ROOM = 16 << 20  # bytes of the trajectories of one answer
ORDERS = ('newest', 'oldest', 'best', 'worst')
STATUSES = tuple(s.name.lower() for s in Status)
# What a list is filtered by; numbers, but for the choices.
CHOICES = {
  'phase': trajectories.PHASES,
  'status': STATUSES,
  'outcome': ('solved', 'unsolved'),
  'order': ORDERS,
}
NUMBERS = ('from', 'to', 'task', 'group', 'page')
_META = '<meta http-equiv="Content-Security-Policy" content="{}">'
_PARTS = pathlib.Path(__file__).parent / 'static'
_BASE = _PARTS.parent.parent / 'templates' / 'base.css'


def query(words: Mapping[str, str]) -> dict[str, Any]:
  """Parses and checks the filters of a list; empty ones are ignored.

  Raises:
    ValueError: an unknown name or value.
  """
  out: dict[str, Any] = {}
  for name, word in words.items():
    if not word:
      continue
    if name in CHOICES and word in CHOICES[name]:
      out[name] = word
    elif name in NUMBERS and word.lstrip('-').isdecimal() and len(word) < 10:
      out[name] = int(word)
    else:
      choices = CHOICES.get(name) or (*CHOICES, *NUMBERS)
      expected = 'a whole number' if name in NUMBERS else f'one of {choices}'
      raise ValueError(f'filter {name} must be {expected}, got {word}')
  return out


def matching(heads: np.ndarray, filters: Mapping[str, Any]) -> np.ndarray:
  """Returns the numbers of matching trajectories, sorted as asked: [m]."""
  fits = np.ones(len(heads), bool)
  for name, words in (('phase', trajectories.PHASES), ('status', STATUSES)):
    if name in filters:
      fits &= heads[name] == words.index(filters[name])
  for name in ('task', 'group'):
    if name in filters:
      fits &= heads[name] == filters[name]
  if 'outcome' in filters:
    fits &= (heads['outcome'] > 0.5) == (filters['outcome'] == 'solved')
  fits &= heads['step'] >= filters.get('from', 0)
  fits &= heads['step'] <= filters.get('to', np.iinfo(np.int64).max)
  index, order = np.flatnonzero(fits), filters.get('order', ORDERS[0])
  key = heads['step' if order in ('newest', 'oldest') else 'reward'][index]
  sign = -1 if order in ('newest', 'best') else 1
  return index[np.argsort(sign * key.astype(float), kind='stable')]


def listed(log: trajectories.Log, filters: Mapping[str, Any]) -> dict[str, Any]:
  """Returns one page of the list, and the values of its filters."""
  index = matching(log.heads, filters)
  first = max(filters.get('page', 0), 0) * PAGE
  steps = log.heads['step']
  return {
    'total': len(log),
    'found': len(index),
    'size': PAGE,
    'rows': rows(log.heads, index[first : first + PAGE].tolist()),
    'phases': [trajectories.PHASES[i] for i in np.unique(log.heads['phase'])],
    'statuses': [STATUSES[i] for i in np.unique(log.heads['status'])],
    'steps': [int(steps.min()), int(steps.max())] if len(log) else [0, 0],
  }


def rows(heads: np.ndarray, index: Sequence[int]) -> list[dict[str, Any]]:
  """Builds rows of the list of trajectories."""
  out = []
  for i in index:
    row = {name: heads[name][i].item() for name in shards.FACT_NAMES}
    row['phase'] = trajectories.PHASES[row['phase']]
    row['status'] = STATUSES[row['status']]
    out.append({'i': int(i), **row})
  return out


def some(
  log: trajectories.Log, index: Sequence[int], room: int | None = None
) -> bytes:
  """Joins whole trajectories, each once; damaged ones give their error.

  Their JSON is not parsed: as objects it would be ten times as large.

  Args:
    room: bytes in total; trajectories beyond it are marked as too large
  """
  parts, left = [], room
  for i in dict.fromkeys(map(int, index)):
    try:
      text = log.text(i, left)
    except (IndexError, ValueError) as error:
      parts.append(json.dumps({'i': i, 'error': str(error)}).encode())
    else:
      parts.append(b'{"i":%d,' % i + text[1:])
      left = None if left is None else left - len(text)
  return b'[' + b','.join(parts) + b']'


def page(name: str, data: Mapping[str, Any] | None = None) -> tuple[str, str]:
  """Builds the page and its Content-Security-Policy.

  Args:
    name: of the run
    data: shown by a standalone page; None: loaded from the server
  """
  parts = {
    kind: (_PARTS / f'page.{kind}').read_text(encoding='utf-8')
    for kind in ('html', 'css', 'js')
  }
  parts['css'] = _BASE.read_text(encoding='utf-8') + parts['css']
  policy = (
    f"default-src 'none'; script-src {_hash(parts['js'])};"
    f" style-src {_hash(parts['css'])}; base-uri 'none'; form-action 'none'"
  )
  text = json.dumps(data, separators=(',', ':')).replace('<', '\\u003c')
  filled = {
    'POLICY': '' if data is None else _META.format(html.escape(policy)),
    'NAME': html.escape(name),
    'STYLE': parts['css'],
    'SPANS': json.dumps({x.value: x.name.lower() for x in Span}),
    'DATA': text,
    'SCRIPT': parts['js'],
  }
  # In one pass over the template: what is filled in is not looked at again.
  pieces = parts['html'].split('@')
  pieces[1::2] = [filled[name] for name in pieces[1::2]]
  return ''.join(pieces), policy


def _hash(text: str) -> str:
  digest = hashlib.sha256(text.encode()).digest()
  return f"'sha256-{base64.b64encode(digest).decode()}'"


def save(log: trajectories.Log, name: str, out: str, filters, most: int) -> int:
  """Writes one file with the first `most` that fit; returns how many."""
  index = matching(log.heads, filters)[:most].tolist()
  if not index:
    raise ValueError(
      f'--only must match at least one of the {len(log)} trajectories of {name}'
    )
  records = json.loads(some(log, index))
  text, _ = page(name, {'rows': rows(log.heads, index), 'some': records})
  storage.write(out, text)
  return len(index)
