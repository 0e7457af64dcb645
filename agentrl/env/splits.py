"""Splits of tasks, decided by their content alone.

Does not import JAX, for which environment processes would have to wait.
"""

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

SPLITS = ('train', 'test')
TEST_SHARE = 5  # one key in five belongs to the test split

Task = TypeVar('Task')


def content_key(content: bytes) -> str:
  """Hashes to 16 hex digits of SHA-256: the same on every host and run."""
  return hashlib.sha256(content).hexdigest()[:16]


def state_of(text: str) -> int:
  """Hashes an observation, at least 0; equal ones are one state."""
  return int(content_key(text.encode())[:8], 16) & 0x7FFFFFFF


def symmetric_key(plane: np.ndarray) -> str:
  """Hashes a board u8[H, W], equally for its mirrored and turned forms.

  key = hash(min over the 8 symmetries of the square of (shape, cells))
  """
  forms = [np.rot90(p, k) for p in (plane, plane.T) for k in range(4)]
  shape, cells = min((p.shape, p.tobytes()) for p in forms)
  return content_key(repr(shape).encode() + cells)


def split_of(key: str) -> str:
  """Returns the split a key belongs to: a property of the key alone."""
  return 'test' if int(key, 16) % TEST_SHARE == 0 else 'train'


def split_rng(split: str, seed: int) -> np.random.Generator:
  """Returns the host randomness of a split.

  Raises:
    ValueError: unknown split or negative seed.
  """
  if split not in SPLITS:
    raise ValueError(f"split {split!r} is unknown; use 'train' or 'test'")
  if seed < 0:
    raise ValueError(f'seed {seed} is negative; use 0 or more')
  return np.random.default_rng([seed, SPLITS.index(split)])


def distinct_tasks(
  draw: Callable[[], tuple[str, Any] | None],
  finish: Callable[[str, Any], Task | None],
  split: str,
  count: int,
  patience: int = 5000,
) -> Iterator[Task]:
  """Returns the first `count` new tasks of a split among random drafts.

  Args:
    draw: gives a key and a draft, or None when this draw came to nothing.
    finish: turns a draft into a task (here lies the dear part: the search), or
      None when it will not do. Only called for new keys of the split.
    patience: draws in a row without a new task after which to give up.

  Raises:
    ValueError: patience ran out.
  """
  seen: set[str] = set()
  total, idle = 0, 0
  while total < count:
    idle += 1
    if idle > patience:
      raise ValueError(
        f'only {total} of {count} distinct {split} tasks turned up before'
        f' {patience} draws in a row gave no new one; ask for fewer or widen'
        ' the settings'
      )
    key, draft = draw() or ('', None)
    if not key or key in seen or split_of(key) != split:
      continue
    seen.add(key)
    task = finish(key, draft)
    if task is not None:
      total, idle = total + 1, 0
      yield task
