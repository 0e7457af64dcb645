"""Runs that are cut off where a test says, as a kill would cut them off."""

import contextlib
from collections.abc import Iterator

import pytest

from agentrl.log import metrics


class KilledError(Exception):
  pass


@contextlib.contextmanager
def after_row(step: int) -> Iterator[None]:
  """What runs inside ends once the row of that step has been written."""
  write = metrics.MetricsWriter.write

  def write_and_die(self, at, scalars, **where):
    write(self, at, scalars, **where)
    if at == step:
      raise KilledError

  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(metrics.MetricsWriter, 'write', write_and_die)
    with pytest.raises(KilledError):
      yield
