"""Task sets of host environments: JSON tasks with messages that solve them.

They are in the store of all task sets; a task and its messages are JSON there.
"""

import dataclasses
import json
import os
from collections.abc import Sequence
from typing import Any

import tensorflow_datasets as tfds

from agentrl.dataset import tfds_store


@dataclasses.dataclass(frozen=True)
class HostTaskSet:
  """n tasks, with a demonstration each or without."""

  tasks: list[dict[str, Any]]
  demonstration: list[list[str]]  # messages that solve it; empty: none is known
  keys: list[str]

  def __len__(self) -> int:
    return len(self.keys)


def load(
  source: tfds_store.Source,
  split: str,
  count: int,
  seed: int,
  *,
  folder: str | os.PathLike[str],
) -> HostTaskSet:
  """`count` tasks of the source; made into `folder` if they are not there.

  Raises:
    ValueError: as `tfds_store.load`; or only a file of an older version is
      there, whose tasks this one does not read.
  """
  name = tfds_store.config_name(source, split, count, seed)
  old = os.path.join(folder, 'spoken', f'{name}.jsonl')
  if not tfds_store.location(folder, name).is_dir() and os.path.exists(old):
    raise ValueError(
      f'task file {old} is of an older version; delete it, and its tasks are'
      ' made again'
    )
  examples = tfds_store.load(
    source, split, count, seed, folder=folder, encode=encode_messages
  )
  return HostTaskSet(
    tasks=[json.loads(example['task']) for example in examples],
    demonstration=[json.loads(example['said']) for example in examples],
    keys=[example['key'] for example in examples],
  )


def encode_messages(tasks: Sequence[Any]) -> tfds_store.Records:
  """Records of `env.base.HostTask`s."""
  features = {name: tfds.features.Text() for name in ('task', 'said', 'key')}
  return features, [
    {
      'task': json.dumps(one.task),
      'said': json.dumps(list(one.demonstration)),
      'key': one.key,
    }
    for one in tasks
  ]
