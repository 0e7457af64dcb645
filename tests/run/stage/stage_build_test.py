"""Experiments of stages: what they share, and what they have of their own."""

import pytest

from agentrl.configs import base, grpo, stages
from agentrl.run import build
from agentrl.run.stage import stage_build


def config(tmp_path, seed=0, **changes):
  c = grpo.get_config('tiny,env=frozen_lake')
  c.data, c.seed = str(tmp_path), seed
  c.env.train, c.env.test = 8, 4
  base.stage(c, 'again', steps=1, changes={'role.policy.lr': 1e-4})
  base.stage(c, 'wider', steps=1, changes={'env.width': 5, **changes})
  c.stages = ('sft', 'rl', 'again', 'wider')
  return base.finish(c)


def built(configs, in_place):
  plans = stages.plans(configs[0])
  first = build.experiments(configs, in_place=in_place)
  return first, stage_build.experiments(first, plans)


def test_stages_of_one_world_share_its_tasks(tmp_path):
  first, of = built([config(tmp_path)], True)
  assert list(of) == ['sft', 'rl', 'again', 'wider']
  assert of['rl'][0] is first[0]
  assert of['again'][0].train is first[0].train
  assert of['wider'][0].train is not first[0].train


@pytest.mark.parametrize('in_place', [True, False])
def test_every_seed_of_a_stage_learns_as_all_do(in_place, tmp_path):
  _, of = built([config(tmp_path, seed) for seed in (3, 5)], in_place)
  for each in of.values():
    assert [s.config.seed for s in each] == [3, 5]
    for s in each:
      for alg in (s.algorithm, s.warm):
        assert alg.context.micro.in_place == in_place
      assert s.algorithm.seed == s.config.seed


def test_a_stage_that_does_not_fit_is_named(tmp_path):
  with pytest.raises(ValueError):
    built([config(tmp_path, **{'env.height': 1, 'env.width': 1})], True)
