"""Experiments of a config: what goes together, and what does not."""

import pytest

from agentrl.run import build
from tests.run.small_configs import countdown as config


def test_by_turns(tmp_path):
  changes = dict(rollout__history='turn', rollout__window=2, micro_batch=16)
  s = build.experiment(config(data=str(tmp_path), **changes))
  assert s.capacity.context == 2 * 24 + 32
  assert s.capacity.row == 2 * (24 + 32)


def test_runs_do_not_go_together(tmp_path):
  with pytest.raises(ValueError):
    build.experiments([config(data=str(tmp_path))] * 2)
