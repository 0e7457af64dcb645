"""Defaults of a run from a checkpoint, by the arguments of a config."""

import importlib

import pytest

from agentrl import registry
from agentrl.configs import (
  base,
  digiq,
  envs,
  grpo,
  oprl,
  oprl_token,
  pretrained,
)
from agentrl.env import base as env_base
from agentrl.env.jit import bifurcation, frozen_lake, sokoban
from agentrl.run import config_file
from agentrl.run.check import validate
from tests import errors

ENVS = (*envs.JITTED, *env_base.FAMILIES)
# They lack a service, a file or a program, or have goals that a group does not
# share.
UNREADY = 'interview', 'jsonl', 'program', 'proposed_chores'


@pytest.mark.parametrize('method', config_file.methods())
def test_every_method_has_them(method):
  module = importlib.import_module(f'agentrl.configs.{method}')
  for arg in ('checkpoint=a:b/c', 'tiny,checkpoint=x,lora=4'):
    c = module.get_config(arg)
    registry.check(base.wiring(c))
    assert c.model.dtype == 'auto'
    assert c.model.remat == 'layer'
    assert c.sft.steps == 0
    rates = {name: role.get('lr', 0.0) for name, role in c.role.items()}
    assert all(rate < 5e-4 for rate in rates.values()), rates
  assert c.lora.rank == 4
  assert c.model.path == 'x'


@pytest.mark.parametrize('name', ENVS)
def test_every_environment_says_how_to_reason_and_to_act(name):
  c = grpo.get_config(f'env={name},checkpoint=hub/name')
  assert c.model.path == 'hub/name'
  assert ('Think' in c.rollout.system) == (name not in ('program', 'verifiers'))
  assert c.rollout.max_message_tokens >= 256
  tagged = name in pretrained.TAGGED
  assert c.rollout.action_prefix == ('' if tagged else pretrained.PREFIX)
  assert ('"Action:"' in c.rollout.system) != tagged
  if c.env.get('teach') is not None:
    assert c.env.teach
  if name not in UNREADY:
    validate.config(c)


@pytest.mark.parametrize('name', ENVS)
def test_a_small_model_answers_at_once_after_a_warm_start(name):
  c = grpo.get_config(f'env={name},checkpoint=smollm2,lora=16')
  assert c == grpo.get_config(f'env={name},checkpoint=smollm2,small,lora=16')
  assert 'Think' not in c.rollout.system
  assert c.rollout.action_prefix == ''
  assert c.rollout.max_message_tokens <= 48
  assert c.sft.steps > 0
  assert c.sft.lr == c.role.policy.lr == 5e-4
  if name not in UNREADY:
    validate.config(c)
  full = grpo.get_config(f'env={name},checkpoint=x,small')
  assert full.role.policy.lr < 1e-4
  assert full.model.path == 'x'


def test_the_moves_are_those_of_the_environment():
  for name, actions in (
    ('sokoban', sokoban.Sokoban.actions),
    ('frozen_lake', frozen_lake.FrozenLake.actions),
    ('bifurcation', bifurcation.Bifurcation().actions),
  ):
    words = pretrained.MOVES[name].replace(' or ', ', ').split(', ')
    assert tuple(words) == actions
    assert pretrained.MOVES[name] in (
      grpo.get_config(f'env={name},checkpoint=x').rollout.system
    )


def test_rates_fall_with_that_of_the_policy():
  for arg, rate in (('checkpoint=x', 1e-6), ('checkpoint=x,lora=8', 1e-5)):
    for method in (oprl, oprl_token):  # which finishes the config of oprl again
      role = method.get_config(arg).role
      assert role.policy.lr == rate
      assert role.prm.lr == pytest.approx(rate)
  critic = digiq.get_config('checkpoint=x').role.critic
  assert critic.lr == pytest.approx(1e-2 / 600)
  assert digiq.get_config().role.critic.lr == 1e-2
  assert oprl.get_config().role.prm.lr == 6e-4


@pytest.mark.parametrize(
  ('arg', 'words'),
  [
    ('checkpoint', 'checkpoint DIR'),
    ('checkpoint=', 'checkpoint'),
    ('checkpoint=a,b', 'b'),
    ('lora=4', 'lora 4 checkpoint DIR'),
    ('checkpoint=a,lora=x', 'lora x 16'),
    ('small', 'small checkpoint DIR'),
  ],
)
def test_mistakes_are_one_sentence(arg, words):
  with errors.raises(ValueError, words) as error:
    grpo.get_config(arg)
  assert '\n' not in str(error.value)
