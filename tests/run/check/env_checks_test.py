"""Environments whose settings, terms or length do not fit."""

import pytest

from agentrl import registry
from agentrl.configs import base, envs, grpo, pae, spiral, vpr
from agentrl.run.check import env_checks, fields, validate
from agentrl.run.play import jit_env
from tests import errors

# Links that compare all attempts, of whatever group.
EVERYWHERE = {'episode': {x: {'by': ()} for x in ('center', 'scale')}}


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


def test_batches_are_whole_matches():
  c = spiral.get_config()
  env = jit_env.environment(fields.read(c))[1]
  env_checks.seats(fields.read(c), env)
  for path, value in (
    ('rollout.max_turns', 1),
    ('rollout.group_size', 1),
    ('rollout.slots', 5),
    ('sft.batch', 7),
  ):
    wrong = spiral.get_config()
    section, _, name = path.partition('.')
    wrong[section][name] = value
    with errors.raises(ValueError, f'{path} {value}'):
      env_checks.seats(fields.read(wrong), env)
    if path != 'rollout.max_turns':  # a fixed player has the others
      wrong.env.opponent = 'random'
      against = jit_env.environment(fields.read(wrong))[1]
      env_checks.seats(fields.read(wrong), against)


def test_roles_need_seats():
  with errors.raises(ValueError, 'column:agent'):
    registry.check(base.wiring(spiral.get_config('env=sokoban')))
  for name in ('kuhn_poker', 'leduc_poker', 'tic_tac_toe', 'connect_four'):
    c = fields.read(spiral.get_config(f'env={name}'))
    env_checks.seats(c, jit_env.environment(c)[1])
    registry.check(base.wiring(c))
    assert envs.columns(c) == ('agent', 'seat', 'match')
  assert envs.columns(grpo.get_config('env=sokoban')) == ()
  with errors.raises(ValueError, 'env.opponent optimal'):
    wrong = spiral.get_config('env=leduc_poker')
    wrong.env.opponent = 'optimal'
    jit_env.environment(fields.read(wrong))


TABLE = 'tests.rollout.tables:Kuhn'


@pytest.mark.parametrize(
  ('path', 'value'),
  [('rollout.group_size', 1), ('rollout.slots', 5), ('sft.batch', 7),
   ('host.num_envs', 3), ('prefix', 'random_prefix'), ('collect', 'branch'),
   ('rollout.null_observation', 'nothing')],
)  # fmt: skip
def test_host_matches_are_whole_and_played_from_their_beginning(path, value):
  c = fields.read(grpo.get_config(f'env={TABLE}'))
  env_checks.host_seats(c, envs.family(c))
  wrong = grpo.get_config(f'env={TABLE}')
  section, _, name = path.rpartition('.')
  (wrong[section] if section else wrong)[name] = value
  wrong = fields.read(wrong)
  with errors.raises(ValueError, f'{path} {value}'):
    env_checks.host_seats(wrong, envs.family(wrong))


def test_hosts_seats_have_names_and_no_judge_of_last_messages():
  c = fields.read(grpo.get_config(f'env={TABLE},judge'))
  with errors.raises(ValueError, 'service.judge'):
    env_checks.host_seats(c, envs.family(c))
  one = fields.read(grpo.get_config('env=countdown'))
  env_checks.host_seats(one, envs.family(one))  # one seat: nothing to check


@pytest.mark.parametrize(('path', 'value'), [
  ('prefix', 'random_prefix'), ('collect', 'partial')])  # fmt: skip
def test_jit_matches_too(path, value):
  wrong = spiral.get_config()
  wrong[path] = value
  wrong = fields.read(wrong)
  with errors.raises(ValueError, f'{path} {value}'):
    env_checks.seats(wrong, jit_env.environment(wrong)[1])


def test_attempts_at_goals_of_their_own_are_not_compared():
  c = grpo.get_config('tiny,env=proposed_chores')
  names = "episode.center.by 'group' proposed_chores env.proposed"
  with errors.raises(ValueError, f'{names} rollout.group_size'):
    validate.config(c)
  for path, value in (('env', {'proposed': False}), ('hp', EVERYWHERE)):
    fits = c.copy_and_resolve_references()
    fits[path].update(value)
    validate.config(fits)
  validate.config(pae.get_config('tiny'))
