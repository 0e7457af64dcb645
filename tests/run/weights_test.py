"""Weights of runs that cannot be exported."""

import pytest

from agentrl.run import weights, workdir
from tests.run.small_configs import checkpoint as config


def test_a_run_of_its_own_model_is_no_checkpoint(tmp_path):
  workdir.keep_config(config(tmp_path, ''), str(tmp_path))
  with pytest.raises(ValueError, match=r'model of its own.*model\.path'):
    weights.export(str(tmp_path), str(tmp_path / 'out'))
