"""Training-free study: what its arms change."""

from agentrl.lab.papers.training_free.study import DESIGN
from agentrl.lab.papers.training_free_more import study as more
from agentrl.lab.study import warm_arms


def test_only_the_trained_arm_moves_parameters(tmp_path):
  warm, learn = warm_arms.planned(DESIGN, str(tmp_path), seeds=2)
  for x in learn:
    arm = x.name.split('/')[0]
    assert (x.config.minibatch == 'none') == (arm != 'trained')
    assert x.config.stage['follow']['steps'] == 0
    reads = x.config.hp['recall']['whole']['arm'] == 'own'
    assert reads == (arm in ('lessons', 'elsewhere'))
  assert {x.config.steps for x in warm} == {0}
  budgets = {
    (x.config.steps, x.config.rollout.batch, x.config.rollout.group_size)
    for x in learn
  }
  assert len(budgets) == 1


def test_new_seeds_are_all_that_the_second_protocol_changes(tmp_path):
  def runs(design):
    _, learn = warm_arms.planned(design, str(tmp_path), seeds=2)
    return [x.changes for x in learn]

  for first, later in zip(runs(DESIGN), runs(more.DESIGN), strict=True):
    assert later['seed'] == first['seed'] + 5
    same = {'seed': 0, 'init': ''}
    assert later | same == first | same
