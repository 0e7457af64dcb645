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
  """Loads `count` tasks of the source; makes them if they are not there.

  Raises: ValueError as `tfds_store.load`.
  """
  examples = tfds_store.load(
    source, split, count, seed, folder=folder, encode=encode_messages
  )
  return HostTaskSet(
    tasks=[json.loads(example['task']) for example in examples],
    demonstration=[json.loads(example['said']) for example in examples],
    keys=[example['key'] for example in examples],
  )


def encode_messages(tasks: Sequence[Any]) -> tfds_store.Records:
  """Encodes records of `env.base.HostTask`s."""
  features = {name: tfds.features.Text() for name in ('task', 'said', 'key')}
  return features, [
    {
      'task': json.dumps(one.task),
      'said': json.dumps(list(one.demonstration)),
      'key': one.key,
    }
    for one in tasks
  ]
