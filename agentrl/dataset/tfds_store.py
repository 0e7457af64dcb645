"""Task store: a TFDS builder of array records, without TensorFlow.

Built once per source and reused; an encoder defines the record.
"""

import contextlib
import io
import logging as std_logging
import os
import random
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import tensorflow_datasets as tfds
from absl import logging

from agentrl.log import waiting as progress


class Source(Protocol):
  """Generator of tasks (`env.base.TaskSource`, `env.base.EnvFamily`)."""

  def name(self) -> str:
    """Returns a file-system-safe name with a hash of all task settings."""

  def tasks(self, split: str, count: int, seed: int) -> Iterator[Any]:
    """Yields up to `count` tasks, the same for the same arguments."""


Records = tuple[dict[str, Any], list[dict[str, Any]]]  # features, rows
Encoder = Callable[[Sequence[Any]], Records]


class AgentTasks(tfds.core.GeneratorBasedBuilder):
  """Tasks with their solutions, in the order given."""

  VERSION = tfds.core.Version('1.0.0')

  def __init__(
    self, *, records: Records, split: str, config: str, data_dir: str
  ):
    self._features, self._rows = records
    self._split = split
    super().__init__(
      config=tfds.core.BuilderConfig(name=config),
      data_dir=data_dir,
      file_format='array_record',
    )

  def _info(self) -> tfds.core.DatasetInfo:
    return tfds.core.DatasetInfo(
      builder=self,
      description='Tasks of an environment with one solution each.',
      features=tfds.features.FeaturesDict(self._features),
      disable_shuffling=True,  # the order given is the order read
    )

  def _split_generators(self, dl_manager):
    del dl_manager  # nothing is downloaded
    return {self._split: self._generate_examples()}

  def _generate_examples(self):
    yield from enumerate(self._rows)


def load(
  source: Source,
  split: str,
  count: int,
  seed: int,
  *,
  folder: str | os.PathLike[str],
  encode: Encoder,
) -> list[dict]:
  """Loads `count` examples of the source, building them in `folder` if needed.

  If the data set exists, only the source's name is read. Safe when several
  processes run it at once or one is killed.

  Raises:
    ValueError: if an argument is wrong, the source has fewer tasks, they
      cannot be encoded, or the files are damaged.
  """
  name = config_name(source, split, count, seed)
  if not location(folder, name).is_dir():
    _build(source, split, count, seed, name, encode, folder)
  return read(split=split, config=name, folder=folder)


def config_name(source: Source, split: str, count: int, seed: int) -> str:
  """Checks the arguments and returns the name of the task set on disk."""
  if split not in ('train', 'test'):
    raise ValueError(f"split must be 'train' or 'test', got {split!r}")
  if count < 1:
    raise ValueError(f'count must be at least 1, got {count}')
  if seed < 0:
    raise ValueError(f'seed must be at least 0, got {seed}')
  name = source.name()
  if not re.fullmatch(r'[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}', name):
    raise ValueError(
      f"source name must be up to 200 letters, digits, '_', '-' and '.',"
      f' got {name!r}'
    )
  return f'{name}-{split}-{count}-{seed}'


def _build(source, split, count, seed, config, encode, folder) -> None:
  start = time.monotonic()
  tasks = islice(source.tasks(split, count, seed), count)
  what = f'Built %d of {count} {split} tasks of {source.name()}'
  examples = list(progress.logged(tasks, what))
  if len(examples) < count:
    raise ValueError(
      f'count must be at most {len(examples)}, the solvable {split} tasks of'
      f' {source.name()}, got {count}; ask for fewer or widen its settings'
    )
  os.makedirs(folder, exist_ok=True)
  write(examples, split=split, config=config, folder=folder, encode=encode)
  logging.info(
    'Built %d %s tasks of %s in %.1f s.',
    count,
    split,
    source.name(),
    time.monotonic() - start,
  )


def location(folder: str | os.PathLike[str], config: str) -> Path:
  """Returns the folder of the data set of that name, built or not."""
  return Path(folder) / AgentTasks.name / config / str(AgentTasks.VERSION)


def write(
  examples: Sequence[Any],
  *,
  split: str,
  config: str,
  folder: str | os.PathLike[str],
  encode: Encoder,
) -> None:
  """Writes at least one example to `location(folder, config)`, all or nothing.

  Everything is written to a temporary directory and renamed when complete. If
  two processes write at once, the first to finish wins and the other's equal
  data are dropped. A killed process leaves a `.building-` directory, which is
  never read.

  Raises:
    ValueError: if they cannot be encoded.
  """
  records = encode(examples)
  final = location(folder, config)
  final.parent.mkdir(parents=True, exist_ok=True)
  # A directory of our own: TFDS draws the name of its own from Python's
  # `random`, where two processes with one seed draw alike, and where a run
  # that builds must not draw more than one that finds the set built.
  build = tempfile.mkdtemp(prefix='.building-', dir=folder)
  drawn = random.getstate()
  try:
    # TFDS prints its banners to the standard output, whatever is asked.
    with quiet(), contextlib.redirect_stdout(io.StringIO()):
      AgentTasks(
        records=records, split=split, config=config, data_dir=build
      ).download_and_prepare(
        download_config=tfds.download.DownloadConfig(try_download_gcs=False)
      )
    try:
      os.rename(location(build, config), final)  # refused if it holds anything
    except OSError:
      if not final.is_dir():
        raise
  finally:
    random.setstate(drawn)
    shutil.rmtree(build, ignore_errors=True)


def read(
  *, split: str, config: str, folder: str | os.PathLike[str]
) -> list[dict]:
  """Reads the examples as encoded, in order.

  Raises:
    ValueError: if the data set is damaged.
  """
  place = location(folder, config)
  try:
    with quiet():
      data = tfds.builder_from_directory(place)
      source = data.as_data_source(split=split)
      examples = source.__getitems__(range(len(source)))
    return [_decoded(example, data.info.features) for example in examples]
  except Exception as error:
    reason = str(error).strip().split('\n')[0]
    raise ValueError(
      f'the task set in {place} cannot be read ({reason}); delete it to'
      ' rebuild it'
    ) from error


def _decoded(example: dict, features: tfds.features.FeaturesDict) -> dict:
  """Restores dtypes and text, which TFDS reads as numbers and bytes."""
  if example['key'] is None:  # how a record lost from a cut file reads
    raise ValueError('a record is missing')
  out = {}
  for name, x in example.items():
    if isinstance(x, dict):
      x = {k: np.asarray(v, features[name][k].np_dtype) for k, v in x.items()}
    out[name] = x.decode() if isinstance(x, bytes) else x
  return out


@contextlib.contextmanager
def quiet() -> Iterator[None]:
  """Silences TFDS's progress bars and notices; errors still show."""

  def ours(record: std_logging.LogRecord) -> bool:
    return (
      record.levelno >= std_logging.ERROR
      or 'tensorflow_datasets' not in record.pathname
    )

  logger = logging.get_absl_logger()
  tfds.disable_progress_bar()
  logger.addFilter(ours)
  try:
    yield
  finally:
    logger.removeFilter(ours)
