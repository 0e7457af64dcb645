"""Refusals by their type and by what they name, in whatever words."""

import contextlib
import re
from collections.abc import Iterator

import pytest


@contextlib.contextmanager
def raises(
  kind: type[BaseException], names: str
) -> Iterator[pytest.ExceptionInfo]:
  """Expects an error whose message has every word of `names`.

  Words are fields, values, files and flags, in any order: 'rollout.batch -1'.
  """
  with pytest.raises(kind) as caught:
    yield caught
  notes = getattr(caught.value, '__notes__', [])
  check('\n'.join([str(caught.value), *notes]), names)


def check(message: str, names: str) -> None:
  missing = [word for word in names.split() if not has(message, word)]
  assert not missing, f'{missing} must be named, got {message!r}'


def has(message: str, word: str) -> bool:
  """Whether the word stands there whole; quotes and brackets do not count."""
  bare = word.strip('\'"()[]{},;:')
  return bool(re.search(rf'(?<!\w){re.escape(bare)}(?!\w)', message))
