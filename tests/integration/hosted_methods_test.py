"""Methods of every kind on a host environment, two steps each."""

import importlib

import pytest

from tests.integration.judged_methods_test import small, updates

# Groups, a learned process reward, a critic, states, branches, replay,
# resampling, adapters, readings: nulled, after a sibling's solution and after
# a text by outcome.
METHODS = (
  'grpo', 'oprl', 'ppo', 'gigpo', 'arpo', 'spear', 'dapo', 'lora',
  'infopo', 'skill_sd', 'tt_opd',
)  # fmt: skip
# Whose way on hosts another of them takes: nightly.
ALIKE = (
  'arpo', 'dapo', 'grpo', 'gigpo', 'infopo', 'lora', 'ppo', 'skill_sd',
  'spear', 'tt_opd',
)  # fmt: skip


def config(method, folder):
  name = 'grpo' if method == 'lora' else method
  module = importlib.import_module(f'agentrl.configs.{name}')
  # One minibatch, so that what sampled is what is trained.
  c = small(module.get_config('tiny,env=countdown'), folder)
  c.host.num_envs = 6
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
  rl = updates(config(method, tmp_path), tmp_path / 'run')
  assert [r['step'] for r in rl] == [2, 3]
  gap = rl[0].get('logp/sampler_mismatch')  # of a group worth an update
  assert method == 'dapo' if gap is None else gap < 1e-5
