"""Rewards are traced before anything compiles."""

import jax.numpy as jnp
import pytest

from agentrl import registry
from agentrl.configs import base, grpo
from agentrl.run.check import reward_checks, validate
from tests import errors

OURS = [
  x
  for x in registry.names('reward')
  if registry.get('reward', x).f.__module__.startswith('agentrl.')
]


@pytest.mark.parametrize('name', OURS)
def test_ours_return_a_number_for_every_turn(name):
  spec = registry.MethodSpec(reward=(name,))
  reward_checks.returned(spec)


@pytest.mark.parametrize(
  ('reward', 'names'),
  [
    (lambda x: jnp.sum(x.outcome), 'mine float32[2, 3] float32[2] float32[]'),
    (lambda x: x.turns.valid, 'mine float32[2, 3] bool[2, 3]'),
    (lambda x: (x.turns.valid, 1), 'mine tuple'),
    (lambda x: x.turns.terms['near'], "mine near needs=('term:near',)"),
  ],
)
def test_a_mistake_is_found_in_the_config(reward, names, registry_of_test):
  registry.register('reward', 'mine')(reward)
  c = grpo.get_config('tiny')
  c.reward = ('env', 'mine')
  with errors.raises(ValueError, names):
    validate.config(base.finish(c))


def test_a_number_for_every_trajectory_is_a_reward_too(registry_of_test):
  registry.register('reward', 'mine')(lambda x: x.outcome)
  reward_checks.returned(registry.MethodSpec(reward=('mine',)))


def test_a_term_that_is_declared_is_read(registry_of_test):
  @registry.register('reward', needs=('term:progress',))
  def mine(x):
    return jnp.maximum(x.turns.terms['progress'], 0)

  reward_checks.returned(registry.MethodSpec(reward=('mine',)))
