"""Training-free study: what its arms change, and its page."""

import pathlib

from agentrl.lab.papers.training_free.study import DESIGN
from agentrl.lab.study import bounds, warm_arms

DOCS = pathlib.Path(__file__).parents[4] / 'docs'


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


def test_the_page_has_the_table_of_the_report():
  page = (DOCS / 'results' / 'training_free.md').read_text()
  report = bounds.read(str(DOCS / 'training_free.json'))
  assert warm_arms.table(DESIGN, report) in page
