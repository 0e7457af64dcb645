"""Reflections are trained by what a frozen actor gains by them."""

import jax
import numpy as np
import pytest
from ml_collections import ConfigDict

from agentrl import Run
from agentrl.configs import base, retroformer
from agentrl.log import metrics
from agentrl.run import runner
from tests.integration import judged_methods_test, same


def same_params(one, other):
  return all(np.array_equal(a, b) for a, b in same.pairs(one, other))


@pytest.mark.nightly
def test_a_policy_is_trained_and_its_actor_stays_as_it_is(tmp_path):
  c = judged_methods_test.small(retroformer.get_config('tiny'), tmp_path)
  c.stages, c.stage, c.steps = ('rl',), ConfigDict(), 3
  c.checkpoint.every = 1
  c.role.policy.warmup = 0
  c.loss = (*c.loss, 'entropy')  # moves it even if no reflection helps
  states = []
  with Run(base.fill(c), workdir=str(tmp_path / 'run')) as run:
    for _, state, _ in run:
      states.append(jax.device_get(state.params))
  first = states[0]
  assert set(first) == {'policy', 'actor'}
  for params in states[1:]:
    assert same_params(params['actor'], first['actor'])
  assert not same_params(states[-1]['policy'], first['policy'])
  for row in metrics.read(str(tmp_path / 'run' / 'metrics.jsonl')):
    if row['phase'] == 'rl':
      assert row['rollout/service/actor/calls'] > 0


def success(folder, name, **changes):
  """Success by each retry on held-out tasks, of an actor that is a rule."""
  c = retroformer.get_config('tiny')
  c.data, c.env.actor = str(folder / 'data'), 'follower'
  c.env.test, c.eval.episodes, c.checkpoint.every = 200, 400, 1000
  with c.unlocked():
    del c.service['actor'], c.role['actor']
    c.stage.follow.steps, c.steps = 600, 40
  with c.ignore_type():
    c.update_from_flattened_dict(changes)
  runner.run(c, str(folder / name))
  rows = metrics.read(str(folder / name / 'metrics.jsonl'))
  last = [x for x in rows if x['phase'] == 'eval'][-1]
  return np.array([last[f'eval/total/by_{n + 1}'] for n in range(3)])


@pytest.mark.slow
@pytest.mark.nightly
def test_trained_reflections_help_more_than_random_and_none(tmp_path):
  trained = success(tmp_path, 'trained')
  random = success(tmp_path, 'random', **{'env.arm': 'random'})
  none = success(tmp_path, 'none', **{'env.arm': 'none'})
  assert (trained > np.maximum(random, none) + 0.1).all()
