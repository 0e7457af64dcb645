"""Arms without a discount: their change is one of a field that has another."""

import pytest

from agentrl.lab.papers.step_rewards.arms import GIGPO_GAMMA_1, GRAPH_GAMMA_1
from agentrl.run import config_file


@pytest.mark.parametrize('arm', [GIGPO_GAMMA_1, GRAPH_GAMMA_1])
def test_one_discount_is_taken_away(arm):
  c = config_file.load(arm.config)
  ((path, gamma),) = arm.changes.items()
  assert gamma == 1
  assert config_file.change(c.copy_and_resolve_references(), arm.changes) != c
  assert path.endswith('.gamma')
  assert arm.config == f'configs/{arm.tuned_as}.py'
