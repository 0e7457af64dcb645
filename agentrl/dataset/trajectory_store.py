"""Trajectory store: a TFDS data set of array records, without TensorFlow.

  trajectory_store.build(trajectories, 'data', 'solved')
  store = trajectory_store.open_store('data', 'solved')
  long = np.flatnonzero(store.heads['tokens'] > 500)
  print(store[long[0]].turns[0].message)

Trajectories are written in the order given and read at random. Their heads are
kept in memory, so that a caller can select before reading. Nothing is
overwritten.
"""

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow_datasets as tfds
from tensorflow_datasets.core import dataset_info

from agentrl.dataset import tfds_store, trajectory_record
from agentrl.dataset.trajectory import (
  HISTORIES,
  SOURCES,
  StoredTrajectory,
  task_number,
)

NAME = 'agent_trajectories'  # of the data set, for TFDS
VERSION = '1.0.0'  # raised where old stores could not be read any more
SPLIT = 'train'
SHARD = 1 << 14  # trajectories of a file
CHUNK = 256  # trajectories that are held while writing
# Facts of a trajectory to choose by, of what is in the record.
HEAD = np.dtype(
  [
    ('outcome', '<f4'),
    ('reward', '<f4'),  # sum over the turns
    ('turns', '<i4'),
    ('tokens', '<i4'),  # of all messages
    ('context', '<i4'),  # tokens of the longest one
    ('message', '<i4'),  # tokens of the longest one
    ('row', '<i4'),  # tokens of all contexts and messages
    ('word', '<i4'),  # largest token id
    ('source', 'u1'),  # place in SOURCES
    ('history', 'u1'),  # place in HISTORIES
    ('encoded', '?'),
    ('step', '<i8'),
    ('task', '<i8'),  # its index, or a negative hash of its text
    ('group', '<i8'),
  ]
)
_SIZES = ('tokens', 'context', 'message', 'row')
_HISTORY = ('full', 'turn', 'unknown', 'tree')  # in words
_HEADS = 'heads.bin'


def location(folder: str | os.PathLike[str], name: str) -> Path:
  """Returns the folder of the store of that name, built or not."""
  return Path(folder) / NAME / name / VERSION


def build(
  trajectories: Iterable[StoredTrajectory],
  folder: str | os.PathLike[str],
  name: str,
) -> int:
  """Writes a store atomically and returns its number of trajectories.

  Memory does not grow with their number. Everything is written to a temporary
  directory and renamed when complete; a kill leaves a `.building-` directory,
  which is never read.

  Raises:
    ValueError: the store exists, its name is invalid, or it would be empty.
  """
  if not re.fullmatch(r'[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}', name):
    raise ValueError(
      f"store name must be up to 200 letters, digits, '_', '-' and '.', got"
      f' {name!r}'
    )
  final = location(folder, name)
  _refuse_existing(final)
  final.parent.mkdir(parents=True, exist_ok=True)
  building = Path(tempfile.mkdtemp(prefix='.building-', dir=folder))
  made = building / VERSION
  made.mkdir()
  try:
    count = _write(iter(trajectories), made)
    if not count:
      raise ValueError(
        f'store {name!r} must hold at least one trajectory, got none; widen the'
        ' selection'
      )
    try:
      os.rename(made, final)  # refused if it holds anything
    except OSError:
      _refuse_existing(final)
      raise
  finally:
    shutil.rmtree(building, ignore_errors=True)
    with contextlib.suppress(OSError):
      final.parent.rmdir()  # if it is empty
  return count


def _refuse_existing(final: Path) -> None:
  if final.is_dir():
    raise ValueError(
      f'{final} holds a store already; choose another name, or delete that'
      ' folder'
    )


def _write(trajectories: Iterator[StoredTrajectory], folder: Path) -> int:
  count = 0
  writer = _writer(folder)
  with (folder / _HEADS).open('wb') as heads, tfds_store.quiet():
    while chunk := list(islice(trajectories, CHUNK)):
      heads.write(np.array([facts(x) for x in chunk], HEAD).tobytes())
      records = [trajectory_record.encode(x) for x in chunk]
      writer.add_examples({SPLIT: records})
      count += len(chunk)
    writer.close_all()
  return count


def _writer(folder: Path) -> tfds.core.SequentialWriter:
  """Opens a streaming writer; a GeneratorBasedBuilder holds all records."""
  identity = dataset_info.DatasetIdentity(
    name=NAME,
    version=tfds.core.Version(VERSION),
    data_dir=str(folder),
    module_name='',
  )
  info = tfds.core.DatasetInfo(
    builder=identity,
    description='Trajectories of agents: tokens, weights, spans, rewards.',
    features=tfds.features.FeaturesDict(trajectory_record.features()),
    disable_shuffling=True,  # the order given is the order read
  )
  writer = tfds.core.SequentialWriter(info, SHARD, file_format='array_record')
  writer.initialize_splits([SPLIT])
  return writer


def facts(x: StoredTrajectory) -> tuple[Any, ...]:
  """Returns the HEAD of a trajectory."""
  read = [len(turn.context) for turn in x.turns]
  wrote = [len(turn.message) for turn in x.turns]
  arrays = [ids for t in x.turns for ids in (t.context, t.message) if len(ids)]
  values = {
    'outcome': x.outcome,
    'reward': x.reward,
    'turns': len(x.turns),
    'tokens': x.tokens,
    'context': max(read, default=0),
    'message': max(wrote, default=0),
    'row': sum(read) + sum(wrote),
    'word': max((int(ids.max()) for ids in arrays), default=0),
    'source': SOURCES.index(x.source),
    'history': HISTORIES.index(x.history),
    'encoded': x.encoded,
    'step': x.step,
    'task': task_number(x.task),
    'group': x.group,
  }
  return tuple(values[name] for name in HEAD.names or ())


class TrajectoryStore(Sequence[StoredTrajectory]):
  """Trajectories on disk, in the order they were written.

  heads: [n] HEAD
  """

  def __init__(self, place: Path, source: Any, heads: np.ndarray):
    self._place, self._source = place, source
    self.heads = heads

  def __len__(self) -> int:
    return len(self.heads)

  def __getitem__(self, i):
    """Reads one trajectory, or a list for a slice or an array of places.

    Raises:
      IndexError: there is no such trajectory.
      ValueError: the record is damaged.
    """
    if isinstance(i, slice):
      return self.take(range(len(self))[i])
    if isinstance(i, np.ndarray):
      return self.take(i)
    return self.take([i])[0]

  def take(self, indices: Sequence[int] | np.ndarray) -> list[StoredTrajectory]:
    """Reads the trajectories at these places, in their order."""
    places = [int(i) for i in np.asarray(indices, np.int64).tolist()]
    for i in places:
      if not -len(self) <= i < len(self):
        raise IndexError(
          f'trajectory must be one of the {len(self)} in {self._place}, got {i}'
        )
    places = [i % len(self) for i in places]
    try:
      records = self._source.__getitems__(places)
      return [trajectory_record.decode(x) for x in records]
    except Exception as error:  # whatever a damaged file makes readers raise
      raise _damaged(self._place, error) from error


def open_store(folder: str | os.PathLike[str], name: str) -> TrajectoryStore:
  """Opens the store of that name for reading.

  Raises:
    ValueError: there is none, or it is damaged.
  """
  place = location(folder, name)
  if not place.is_dir():
    there = sorted(x.name for x in (Path(folder) / NAME).glob('*'))
    raise ValueError(
      f'store {name!r} does not exist in {folder}, which has {there}; build it'
      ' with `python -m experiments.trajectories`'
    )
  try:
    with tfds_store.quiet():
      source = tfds.builder_from_directory(place).as_data_source(split=SPLIT)
    heads = np.fromfile(place / _HEADS, HEAD)
    if len(heads) != len(source) or not len(heads):
      raise ValueError(f'{len(heads)} heads, {len(source)} records')
  except Exception as error:
    raise _damaged(place, error) from error
  return TrajectoryStore(place, source, heads)


def _damaged(place: Path, error: Exception) -> ValueError:
  reason = str(error).strip().split('\n')[0] or type(error).__name__
  return ValueError(
    f'the store in {place} cannot be read ({reason}); delete that folder and'
    ' rebuild it'
  )


def summary(store: TrajectoryStore) -> str:
  """Summarizes a store as text: counts, tokens, solved share, sizes."""
  x = store.heads
  sources, histories = (
    ', '.join(f'{n} {names[i]}' for i, n in enumerate(np.bincount(x[f])) if n)
    for f, names in (('source', SOURCES), ('history', _HISTORY))
  )
  most = {name: int(np.max(x[name])) for name in ('turns', *_SIZES)}
  tokens = {name: int(np.sum(x[name], dtype=np.int64)) for name in _SIZES}
  return '\n'.join(
    [
      f'{len(x)} trajectories ({sources}), {np.sum(x["encoded"])} encoded from'
      ' text',
      f'history: {histories}',
      f'{len(np.unique(x["task"]))} tasks',
      f'{tokens["tokens"]} message tokens, {tokens["row"]} with contexts',
      f'{np.mean(x["outcome"] > 0.5):.1%} solved',
      f'at most {most["turns"]} turns; {most["context"]} tokens per context,'
      f' {most["message"]} per message, {most["row"]} per row',
    ]
  )
