"""Experiments of a config: what goes together, and what does not."""

import pytest

from agentrl.configs import base, grpo, stages, vpr_turn
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


def test_one_host_run_needs_no_company(tmp_path):
  (s,) = build.experiments([config(data=str(tmp_path))])
  assert s.on_host


def test_one_judged_run_needs_no_company(tmp_path):
  c = vpr_turn.get_config('tiny,env=countdown,judged=tag_share')
  c.data, c.env.train, c.env.test = str(tmp_path), 8, 4
  (s,) = build.experiments([c])
  assert s.algorithm.spec.judge == ('tag_share',)


def staged(tmp_path, seed=0, **changes):
  c = grpo.get_config('tiny,env=frozen_lake')
  c.data, c.seed = str(tmp_path), seed
  c.env.train, c.env.test = 8, 4
  base.stage(c, 'again', steps=1, changes={'role.policy.lr': 1e-4})
  base.stage(c, 'wider', steps=1, changes={'env.width': 5, **changes})
  c.stages = ('sft', 'rl', 'again', 'wider')
  return base.finish(c)


def built(configs, in_place):
  first = build.experiments(configs, in_place=in_place)
  plans = stages.plans(first[0].config)
  return first, build.stage_experiments(first, plans)


def test_stages_of_one_world_share_its_tasks(tmp_path):
  first, of = built([staged(tmp_path)], True)
  assert list(of) == ['sft', 'rl', 'again', 'wider']
  assert first[0].seats == 1
  assert of['rl'][0] is first[0]
  assert of['again'][0].train is first[0].train
  assert of['wider'][0].train is not first[0].train


@pytest.mark.parametrize('in_place', [True, False])
def test_every_seed_of_a_stage_learns_as_all_do(in_place, tmp_path):
  _, of = built([staged(tmp_path, seed) for seed in (3, 5)], in_place)
  for each in of.values():
    assert [s.config.seed for s in each] == [3, 5]
    for s in each:
      for alg in (s.algorithm, s.warm):
        assert alg.context.micro.in_place == in_place
      assert s.algorithm.seed == s.config.seed


def test_a_stage_that_does_not_fit_is_named(tmp_path):
  with pytest.raises(ValueError, match='stage wider: '):
    built([staged(tmp_path, **{'env.height': 1, 'env.width': 1})], True)
