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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.nightly
def test_trained_reflections_help_more_than_untrained_and_random(tmp_path):
  """Success by retry, of an actor that follows most of its notes."""

  def config(name, **changes):
    c = retroformer.get_config('tiny')
    c.data = str(tmp_path / 'data')
    c.env.test, c.eval.episodes, c.checkpoint.every = 200, 400, 1000
    with c.unlocked():
      c.stage.follow.steps = 1500
    with c.ignore_type():
      c.update_from_flattened_dict(changes)
    runner.run(c, str(tmp_path / name))
    rows = metrics.read(str(tmp_path / name / 'metrics.jsonl'))
    return [x for x in rows if x['phase'] == 'eval'][-1]

  trained = config('trained')
  untrained = config('untrained', steps=0)
  random = config('random', steps=0, **{'env.arm': 'random'})
  none = config('none', steps=0, **{'env.arm': 'none'})
  for n in (1, 2, 3):
    name = f'eval/by_{n}'
    others = max(x[name] for x in (untrained, random, none))
    assert trained[name] > others + 0.1 * (n > 1)
