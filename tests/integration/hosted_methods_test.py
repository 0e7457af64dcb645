"""Methods of every kind on a host environment, two steps each."""

import importlib

import numpy as np
import pytest

from agentrl.log import metrics
from agentrl.run import runner

# Groups, a learned process reward, a critic, states, branches, replay,
# resampling, adapters, readings: nulled, after a sibling's solution and after
# a text by outcome.
METHODS = (
  'grpo', 'oprl', 'ppo', 'gigpo', 'arpo', 'spear', 'dapo', 'lora',
  'infopo', 'skill_sd', 'tt_opd',
)  # fmt: skip
# Whose way on hosts another of them takes: nightly.
ALIKE = ('arpo', 'grpo', 'gigpo', 'infopo', 'lora', 'skill_sd', 'tt_opd')


def config(method, folder):
  name = 'grpo' if method == 'lora' else method
  c = importlib.import_module(f'agentrl.configs.{name}').get_config(
    'tiny,env=countdown'
  )
  c.update(dict(data=str(folder / 'data'), steps=2, micro_batch=4))
  c.env.update(dict(train=16, test=4))
  c.rollout.update(dict(batch=8, group_size=4, slots=4))
  c.host.num_envs = 6
  c.sft.update(dict(steps=1, batch=4))
  c.eval.episodes = 4
  c.hp.minibatch.minibatches.n = 1  # so that what sampled is what is trained
  if method == 'lora':
    c.lora.rank = 2
  if 'replay' in c.memory:
    c.hp.memory.replay.n = 4
  return c


@pytest.mark.parametrize(
  'method',
  [
    pytest.param(
      x, marks=pytest.mark.nightly if x in ALIKE else pytest.mark.slow
    )
    for x in METHODS
  ],
)
def test_two_steps(tmp_path, method):
  runner.run(config(method, tmp_path), str(tmp_path / 'run'))
  rows = metrics.read(str(tmp_path / 'run' / 'metrics.jsonl'))
  rl = [r for r in rows if r['phase'] == 'rl']
  assert [r['step'] for r in rl] == [2, 3]
  for r in rl:
    assert np.isfinite(r['loss/total'])
    assert not r['policy/nonfinite_skips']
    assert not [name for name in r if 'fault/' in name]
  gap = rl[0].get('logp/sampler_mismatch')  # of a group worth an update
  assert method == 'dapo' if gap is None else gap < 1e-5
