"""Solved tasks on disk: a TFDS builder of array records, without TensorFlow.

Features follow from the examples: each array of a task with its own dtype and
shape, the actions of its demonstration, their number, and the task's key.
"""

import contextlib
import io
import logging as std_logging
import os
import random
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import tensorflow_datasets as tfds
from absl import logging

# TFDS stores 64-bit floats as 32-bit ones, and cannot read its byte encodings
# without TensorFlow, so this is what comes back with the same bits.
DTYPES = (
  *map(np.dtype, ('bool', 'float16', 'float32', 'uint8', 'uint16')),
  *map(np.dtype, ('int8', 'int16', 'int32', 'int64')),
)


class Solved(Protocol):
  """A task with a demonstration that solves it (`env.base.SolvedTask`)."""

  task: Mapping[str, np.ndarray]
  actions: Sequence[int]
  key: str


class AgentTasks(tfds.core.GeneratorBasedBuilder):
  """Solved tasks, in the order given."""

  VERSION = tfds.core.Version('1.0.0')

  def __init__(
    self, *, examples: Sequence[Solved], split: str, config: str, data_dir: str
  ):
    self._examples = examples
    self._split = split
    super().__init__(
      config=tfds.core.BuilderConfig(name=config),
      data_dir=data_dir,
      file_format='array_record',
    )

  def _info(self) -> tfds.core.DatasetInfo:
    arrays = _arrays(self._examples[0])
    return tfds.core.DatasetInfo(
      builder=self,
      description='Tasks of an environment with one solution each.',
      features=tfds.features.FeaturesDict(
        {
          'task': {
            name: tfds.features.Tensor(shape=x.shape, dtype=x.dtype)
            for name, x in arrays.items()
          },
          'actions': tfds.features.Tensor(
            shape=(self._max_actions(),), dtype=np.int32
          ),
          'n_actions': tfds.features.Tensor(shape=(), dtype=np.int32),
          'key': tfds.features.Text(),
        }
      ),
      disable_shuffling=True,  # the order given is the order read
    )

  def _split_generators(self, dl_manager):
    del dl_manager  # nothing is downloaded
    return {self._split: self._generate_examples()}

  def _generate_examples(self):
    size = self._max_actions()
    for index, example in enumerate(self._examples):
      actions = np.full(size, -1, np.int32)
      actions[: len(example.actions)] = example.actions
      yield (
        index,
        {
          'task': _arrays(example),
          'actions': actions,
          'n_actions': np.int32(len(example.actions)),
          'key': example.key,
        },
      )

  def _max_actions(self) -> int:
    return max(1, *(len(example.actions) for example in self._examples))


def location(folder: str | os.PathLike[str], config: str) -> Path:
  """Where the data set of that name is, or would be."""
  return Path(folder) / AgentTasks.name / config / str(AgentTasks.VERSION)


def write(
  examples: Sequence[Solved],
  *,
  split: str,
  config: str,
  folder: str | os.PathLike[str],
) -> None:
  """Writes at least one example to `location(folder, config)`, all or nothing.

  Everything is written in a directory beside it and renamed when complete. Of
  two processes that write at once the first to finish wins, and the other's
  equal data are dropped. A killed one leaves a `.building-` directory, which
  nobody reads.

  Raises:
    ValueError: if arrays differ in names, shapes or dtypes between examples,
      or have a dtype that would not come back exactly.
  """
  _assert_alike(examples)
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
        examples=examples, split=split, config=config, data_dir=build
      ).download_and_prepare(
        download_config=tfds.download.DownloadConfig(try_download_gcs=False)
      )
    _publish(location(build, config), final)
  finally:
    random.setstate(drawn)
    shutil.rmtree(build, ignore_errors=True)


def _publish(built: Path, final: Path) -> None:
  try:
    os.rename(built, final)  # atomic; refused if `final` holds anything
  except OSError:
    if not final.is_dir():
      raise


def read(
  *, split: str, config: str, folder: str | os.PathLike[str]
) -> list[dict]:
  """The examples as written, in order: task, actions, n_actions and key.

  Raises:
    ValueError: if the data set is damaged.
  """
  place = location(folder, config)
  try:
    with quiet():
      data = tfds.builder_from_directory(place)
      source = data.as_data_source(split=split)
      examples = source.__getitems__(range(len(source)))
    features = data.info.features['task']
    return [_decoded(example, features) for example in examples]
  except Exception as error:
    reason = str(error).strip().split('\n')[0]
    raise ValueError(
      f'the task set in {place} cannot be read ({reason}); delete it and it '
      'is built again'
    ) from error


def _decoded(example: dict, features: tfds.features.FeaturesDict) -> dict:
  """TFDS reads a scalar as a Python number, a text as bytes: mend both."""
  if example['key'] is None:  # how a record lost from a cut file reads
    raise ValueError('a record is missing')
  arrays = {
    name: np.asarray(x, features[name].np_dtype)
    for name, x in example['task'].items()
  }
  return {**example, 'task': arrays, 'key': example['key'].decode()}


def _arrays(example: Solved) -> dict[str, np.ndarray]:
  return {name: np.asarray(x) for name, x in example.task.items()}


def _assert_alike(examples: Sequence[Solved]) -> None:
  """Every example has the arrays of the first, in dtypes that are stored."""
  first = _arrays(examples[0])
  for name, x in first.items():
    if x.dtype not in DTYPES:
      raise ValueError(
        f'task array {name!r} is {x.dtype}, which is not stored exactly; use '
        f'one of {", ".join(map(str, DTYPES))}'
      )
  want = {name: (x.shape, str(x.dtype)) for name, x in first.items()}
  for index, example in enumerate(examples):
    arrays = _arrays(example)
    have = {name: (x.shape, str(x.dtype)) for name, x in arrays.items()}
    if have != want:
      raise ValueError(
        f'task {index} ({example.key}) has arrays {have} but task 0 has '
        f'{want}; pad them to one shape and dtype'
      )


@contextlib.contextmanager
def quiet() -> Iterator[None]:
  """Keeps TFDS's progress bars and notices from the reader; errors stay."""

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
