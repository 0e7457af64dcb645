"""Self-play study: what its arms change, a run of one, claims it may make."""

import pathlib

import numpy as np
import pytest

from agentrl.configs import config
from agentrl.env.jit.games import kuhn, tree
from agentrl.lab.papers.self_play import study
from agentrl.lab.papers.self_play.study import DESIGN
from agentrl.lab.study import bounds, warm_arms
from agentrl.run import runner

DOCS = pathlib.Path(__file__).parents[4] / 'docs'
TINY = {
  'model.width': 16,
  'model.layers': 1,
  'model.heads': 2,
  'model.kv_heads': 2,
  'model.head_dim': 8,
  'model.mlp': 32,
  'rollout.batch': 16,
  'rollout.slots': 16,
  'micro_batch': 16,
  'sft.batch': 16,
  'eval.episodes': 16,
  'env.train': 12,
  'env.test': 6,
}


def test_arms_differ_in_baseline_and_magnet_alone(tmp_path):
  _, learn = warm_arms.planned(DESIGN, str(tmp_path), seeds=2)
  seen, others = {}, []
  for x in learn:
    c = config.to_dict(x.config)
    links = c['stream'].pop('episode')
    magnet = c['schedule']['coef'].pop('kl_k2')
    assert magnet[-1] == x.config.steps  # it falls over the whole run
    seen[x.name.split('/')[0]] = ('less_role_baseline' in links, magnet[1] > 0)
    others.append({**c, 'seed': 0, 'init': ''})
  assert seen == {
    'spiral_magnet': (True, True),
    'no_baseline': (False, True),
    'no_magnet': (True, False),
    'neither': (False, False),
  }
  assert all(x == others[0] for x in others)
  assert min(x.config.seed for x in learn) > 8  # those measured before


def test_the_page_has_the_table_of_the_report():
  page = (DOCS / 'results' / 'self_play.md').read_text()
  report = bounds.read(str(DOCS / 'self_play.json'))
  assert warm_arms.table(DESIGN, report) in page


def test_an_equilibrium_beats_whom_the_claims_name_and_nobody_else():
  rules = kuhn.Kuhn()
  game = tree.build(rules)
  best = tree.tabulated(game, rules, kuhn.optimal)
  pays = {
    name: tree.pay(game, best, tree.tabulated(game, rules, player))
    for name, player in rules.opponents.items()
  }
  assert pays.keys() == {*study.BEATEN, *study.NOT_BEATEN}
  assert all(pays[x] > 0.05 for x in study.BEATEN)
  np.testing.assert_allclose([pays[x] for x in study.NOT_BEATEN], 0, atol=1e-7)


@pytest.mark.slow
def test_an_arm_runs_from_the_warm_start_and_is_read(tmp_path):
  d = DESIGN._replace(
    arms={'neither': DESIGN.arms['neither']},
    sizes=TINY,
    warm={**DESIGN.warm, 'sft.steps': 2},
    learn={'steps': 2},
  )
  warm, learn = warm_arms.planned(d, str(tmp_path), seeds=1)
  for x in (*warm, *learn):
    runner.run(x.config, x.workdir)
  of = warm_arms.report(d, str(tmp_path), seeds=1)['neither']
  assert of.keys() == {'before', 'after', 'left', 'tokens', *DESIGN.held}
  (before,), (after,), (left,) = of['before'], of['after'], of['left']
  assert 0 < before < 1.5
  assert after != before
  assert left == pytest.approx(after / before, abs=1e-3)
  assert of['tokens'][0] > 0
