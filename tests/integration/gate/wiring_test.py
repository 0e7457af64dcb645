"""A config that lacks a part of its method gets one sentence about it."""

import pytest

from agentrl import registry
from agentrl.configs import base
from agentrl.run import config_file
from tests import errors

# Config, the fields that are changed, what the sentence names.
MISTAKES = [
  (
    'oprl:tiny',
    {'signal': ()},
    'c.stream.step add_signal signal:implicit_prm.step implicit_prm c.signal',
  ),
  (
    'oprl:tiny',
    {'advantage': ('episode', 'stepp')},
    'c.advantage stepp episode step',
  ),
  (
    'oprl:tiny',
    {'hp': {'signal': {'implicit_prm': {'betta': 0.1}}}},
    'c.signal.betta implicit_prm beta',
  ),
  (
    'prime:tiny',
    {'signal': ('implicit_prm',)},
    'c.signal signal:ref_logp reference',
  ),
  (
    'prime:tiny',
    {'signal': ('implicit_prm', 'reference')},
    'c.signal implicit_prm signal:ref_logp reference',
  ),
  ('hiper:tiny', {'rollout': 'jit'}, 'term:switch c.rollout.kind options'),
  (
    'hiper:tiny',
    {'advantage': ('switch', 'high')},
    'c.signal low_and_high target:low hae_low',
  ),
  ('grpo:tiny', {'post': ('whiten_tokens', 'whiten')}, 'c.post whiten'),
  ('prime:tiny', {'post': ('whiten',)}, 'c.post whiten'),
  (
    'spear:tiny',
    {'memory': ()},
    'c.stream.replay signal:replay.advantage replay c.memory',
  ),
  (
    'spear:tiny',
    {'memory': (), 'advantage': ('episode',)},
    'c.loss imitate_clip_cov memory:replay replay c.memory',
  ),
  ('spear:tiny', {'memory': ('reply',)}, 'c.memory reply replay'),
  (
    'scalinginter:tiny',
    {'signal': ()},
    'c.loss kl_k3 signal:ref_logp reference c.signal',
  ),
  (
    'dapo:tiny',
    {'loss_aggregation': {'ppo': 'turn_mean'}},
    'c.loss_aggregation.ppo turn_mean trajectory_turn_mean',
  ),
  ('prefix_rft:tiny', {'prefix': 'none'}, 'span:prefix c.prefix'),
]
# What its world, roles and services have to give.
GIVEN = [
  ('oprl:tiny', 'role:prm', 'c.signal c.role'),
  ('infopo:tiny', 'reading:nulled', 'c.signal information c.reading'),
  (
    'cm2:tiny,env=countdown,judged=checklist',
    'service:judge',
    'c.judge checklist c.service',
  ),
]


def wiring(config: str) -> registry.MethodSpec:
  return base.wiring(config_file.load(config))


def refused(w: registry.MethodSpec, names: str) -> None:
  with errors.raises(ValueError, names) as caught:
    registry.check(w)
  assert '\n' not in str(caught.value)


@pytest.mark.parametrize(('config', 'change', 'names'), MISTAKES)
def test_a_mistake_gets_one_sentence(config, change, names):
  refused(wiring(config)._replace(**change), names)


@pytest.mark.parametrize(('config', 'missing', 'names'), GIVEN)
def test_what_nothing_gives_is_named_with_the_section_that_could(
  config, missing, names
):
  w = wiring(config)
  registry.check(w)
  left = tuple(x for x in w.gives if x != missing)
  refused(w._replace(gives=left), f'{missing} {names}')


def test_a_component_whose_hyper_parameter_could_give_it_is_named(
  registry_of_test,
):
  @registry.register('rollout', gives=('reading:{reading}',))
  def reread(*, reading: str = 'hinted'):
    del reading

  w = wiring('infopo:tiny')
  left = tuple(x for x in w.gives if x != 'reading:nulled')
  refused(w._replace(gives=left), 'reading:nulled c.rollout.kind reread')
