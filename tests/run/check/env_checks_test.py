"""Environments whose settings, terms or length do not fit."""

import pytest

from agentrl.configs import grpo, vpr
from agentrl.run.check import env_checks, fields
from tests import errors


@pytest.mark.parametrize(
  ('env', 'field', 'value', 'fix'),
  [('sokoban', 'boxes', 2, 'boxes'), ('frozen_lake', 'slip', True, 'env.slip')],
)
def test_a_planner_knows_where_its_moves_lead(env, field, value, fix):
  c = grpo.get_config(f'tiny,env={env}')
  c.env.oracle = 'plan'
  c.env[field] = type(value)(0) if env == 'frozen_lake' else 1
  env_checks.oracle(fields.read(c))
  c.env[field] = value
  with errors.raises(ValueError, f'env.oracle plan {fix}'):
    env_checks.oracle(fields.read(c))


def test_an_environment_of_fixed_length_ends():
  c = grpo.get_config('tiny,env=bifurcation')
  c.rollout.max_turns = c.env.length
  env_checks.length(c, c.env.length)
  c.rollout.max_turns -= 1
  with errors.raises(ValueError, 'rollout.max_turns'):
    env_checks.length(c, c.env.length)


def test_a_method_needs_terms_that_the_environment_gives():
  c = vpr.get_config('tiny')
  env_checks.terms(c, ('progress',))
  with errors.raises(ValueError, 'term:progress'):
    env_checks.terms(c, ('price',))
