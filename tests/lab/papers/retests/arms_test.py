"""Arms that test the literature again: what they change, of which config."""

import pytest

from agentrl.lab.papers.retests import arms as retest_arms
from agentrl.run import config_file


def config_of(arm):
  return config_file.change(config_file.load(f'{arm.config}:tiny'), arm.changes)


@pytest.mark.parametrize('name', ['grpo', 'gspo', 'cispo'])
def test_a_reused_batch_is_updated_on_eight_times(name):
  arm = retest_arms.reused(name)
  plan = config_of(arm).hp.minibatch.minibatches
  assert plan.epochs * plan.n == 8
  assert (arm.name, arm.config) == (f'{name}_reuse', f'configs/{name}.py')


def test_the_plain_bonus_has_that_weight_and_no_smoothing():
  arm = retest_arms.entropy_bonus(0.01)
  c = config_of(arm)
  assert c.coef.entropy == 0.01
  assert c.schedule.coef.entropy_hinge == ('phases', 0.0, 0.0, 0)
  assert (arm.name, arm.part) == ('entropy_0_01', 'ablation')


def test_claims_are_of_three_points_of_area():
  claim = retest_arms.claim('b is better', 'b', 'a')
  assert (claim.arm, claim.baseline) == ('b', 'a')
  assert (claim.measure, claim.claimed) == ('area', 0.03)
