"""Record of a stored trajectory: typed arrays of TFDS features.

The turns' tokens stand one after the other, with the sizes of the turns beside
them: K turns, ΣC tokens of contexts, ΣM of messages. Whatever reads TFDS reads
it, and every number comes back with the same bits.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from agentrl.dataset.trajectory import (
  SOURCES,
  StoredTrajectory,
  StoredTurn,
  single,
)
from agentrl.types import Status

CONTEXT = {  # [ΣC]
  'context': np.int32,
  'context_span': np.int8,
  'context_weight': np.float32,
}
MESSAGE = {  # [ΣM]
  'message': np.int32,
  'span': np.int8,
  'weight': np.float32,
  'logp': np.float32,
  'version': np.int32,
}
TURN = {  # [K]
  'entropy': np.float32,
  'reward': np.float32,
  'action': np.int32,
  'state': np.int32,
  'scored': np.bool_,
}
WHOLE = {  # []
  'group': np.int64,
  'outcome': np.float32,
  'status': np.int32,
  'source': np.int32,  # place in trajectory.SOURCES
  'step': np.int64,
  'encoded': np.bool_,
}
TEXTS = ('task', 'history', 'term_names', 'id')


def features() -> dict[str, Any]:
  """Maps names to the features of a record.

  context_size, message_size [K]: tokens of each turn
  term_names: a JSON list of T names; terms, term_given [K T]: their values,
    and whether the turn has one
  task: JSON, a number or a text
  """
  lines = CONTEXT | MESSAGE | TURN
  lines |= {'context_size': np.int32, 'message_size': np.int32}
  lines |= {'terms': np.float32, 'term_given': np.bool_}
  tensor = tfds.features.Tensor
  return {
    **{name: tensor(shape=(None,), dtype=x) for name, x in lines.items()},
    **{name: tensor(shape=(), dtype=x) for name, x in WHOLE.items()},
    **{name: tfds.features.Text() for name in TEXTS},
  }


def encode(x: StoredTrajectory) -> dict[str, Any]:
  """Returns the record of a trajectory; numbers become float32."""
  columns: dict[str, Any] = {
    name: [turn[i] for turn in x.turns]
    for i, name in enumerate(StoredTurn._fields)
  }
  names = sorted({name for turn in x.turns for name in turn.terms})
  pairs = [(turn.terms, name) for turn in x.turns for name in names]
  terms = [terms.get(name, 0.0) for terms, name in pairs]
  given = [name in terms for terms, name in pairs]
  return {
    **{
      k: np.concatenate([np.empty(0, t), *columns[k]]).astype(t)
      for k, t in (CONTEXT | MESSAGE).items()
    },
    **{k: np.array(columns[k], t) for k, t in TURN.items()},
    'context_size': np.array([*map(len, columns['context'])], np.int32),
    'message_size': np.array([*map(len, columns['message'])], np.int32),
    'terms': np.array(terms, np.float32),
    'term_given': np.array(given, np.bool_),
    'group': x.group,
    'outcome': x.outcome,
    'status': int(x.status),
    'source': SOURCES.index(x.source),
    'step': x.step,
    'encoded': x.encoded,
    'task': json.dumps(x.task),
    'history': x.history,
    'term_names': json.dumps(names),
    'id': x.id,
  }


def decode(record: Mapping[str, Any]) -> StoredTrajectory:
  """Returns the trajectory of a record.

  Raises:
    ValueError: it is not the one that was written.
  """
  if record['id'] is None:  # how a record lost from a cut file reads
    raise ValueError('a record is missing')
  text = {name: record[name].decode() for name in TEXTS}
  k = len(record['context_size'])
  names = json.loads(text['term_names'])
  terms = record['terms'].reshape(k, len(names)).tolist()
  given = record['term_given'].reshape(k, len(names)).tolist()
  lines: dict[str, Any] = {
    name: _cut(record, name, 'context_size') for name in CONTEXT
  }
  lines |= {name: _cut(record, name, 'message_size') for name in MESSAGE}
  lines |= {name: record[name].tolist() for name in TURN}
  turns = tuple(
    StoredTurn(
      **{name: x[i] for name, x in lines.items()},
      terms={
        n: v
        for n, v, there in zip(names, terms[i], given[i], strict=True)
        if there
      },
    )
    for i in range(k)
  )
  made = StoredTrajectory(
    turns=turns,
    task=json.loads(text['task']),
    group=int(record['group']),
    outcome=single(record['outcome']),
    status=Status(int(record['status'])),
    source=SOURCES[int(record['source'])],
    step=int(record['step']),
    history=text['history'],
    encoded=bool(record['encoded']),
  )
  if made.id != text['id']:
    raise ValueError(f'record {text["id"]} was changed after it was written')
  return made


def _cut(record: Mapping[str, Any], name: str, size: str) -> list[np.ndarray]:
  ends = np.cumsum(record[size])
  return np.split(record[name], ends[:-1]) if len(ends) else []
