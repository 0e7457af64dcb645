"""Refusals of roles and seats that do not fit, before anything compiles."""

import pytest

from agentrl.configs import agentflow, base, dr_mas, grpo
from agentrl.run import runner, weights, workdir
from agentrl.run.check import validate
from tests import errors
from tests.run import small_configs

TWO = ('policy', 'policy_2')


def config(seats=TWO, arg='env=solver_verifier', method=dr_mas):
  c = method.get_config(arg)
  base.role(c, 'policy_2')
  c.rollout.seats = seats
  return base.finish(c)


def test_two_policies_may_play_a_game():
  assert validate.config(config(), devices=1).rollout.seats == TWO


@pytest.mark.parametrize(
  ('seats', 'names'),
  [
    (('policy',), 'rollout.seats 2 solver_verifier policy'),
    ((*TWO, 'policy'), 'rollout.seats 2 solver_verifier'),
    (('policy', 'nobody'), 'rollout.seats c.role nobody'),
    (('policy', 'policy'), 'role.policy_2 rollout.seats'),
    (('policy_2', 'policy_2'), 'rollout.seats policy'),
  ],
)
def test_every_seat_has_a_player_and_every_player_a_seat(seats, names):
  with errors.raises(ValueError, names):
    validate.config(config(seats), devices=1)


def test_players_are_language_models():
  c = config()
  c.role.policy_2.heads = 1
  with errors.raises(ValueError, 'rollout.seats role.policy_2.heads=1'):
    validate.config(c, devices=1)
  c = config()
  c.role.policy_2.kind = 'ema'
  with errors.raises(ValueError, 'rollout.seats policy_2 ema'):
    validate.config(c, devices=1)


def test_a_seat_needs_a_second_match_to_be_compared_with():
  c = agentflow.get_config('tiny')
  for n, fits in ((4, False), (8, True)):
    c.rollout.group_size = n
    if fits:
      validate.config(c, devices=1)
      continue
    with errors.raises(ValueError, 'rollout.group_size 8 4 workflow center'):
      validate.config(c, devices=1)
  c.rollout.group_size = 4
  for link in ('center', 'scale'):
    c.hp.episode[link].by = ('agent',)  # over all tasks
  validate.config(c, devices=1)
  c = dr_mas.get_config('env=kuhn_poker')  # one policy plays both
  c.rollout.group_size = 2
  with errors.raises(ValueError, 'rollout.group_size 4 2 kuhn_poker'):
    validate.config(c, devices=1)


@pytest.mark.parametrize(
  'arg', ['env=frozen_lake', 'env=countdown', 'env=sokoban']
)
def test_only_games_inside_jit_have_seats(arg):
  with errors.raises(ValueError, f'rollout.seats {arg.partition("=")[2]}'):
    validate.config(config(arg=arg, method=grpo), devices=1)


def test_a_fixed_opponent_leaves_one_seat():
  c = config(arg='env=kuhn_poker')
  c.env.opponent = 'random'
  with errors.raises(ValueError, 'rollout.seats env.opponent kuhn_poker'):
    validate.config(c, devices=1)


@pytest.mark.parametrize('field', ['swap_seats', 'learn_in_turn'])
@pytest.mark.parametrize('seats', [(), ('policy', 'policy')])
def test_who_is_alone_neither_swaps_nor_waits(field, seats):
  c = dr_mas.get_config('env=solver_verifier')
  c.rollout.seats, c.rollout[field] = seats, 5
  with errors.raises(ValueError, f'rollout.{field} 5 rollout.seats'):
    validate.config(c, devices=1)


def test_components_that_read_all_by_one_network_are_refused():
  c = config()
  base.role(c, 'teacher', kind='ema')
  c.signal = ('moving_average',)
  base.hp(c, 'signal', 'moving_average', role='teacher')
  with errors.raises(ValueError, 'c.signal moving_average rollout.seats'):
    validate.config(base.finish(c), devices=1)


def never(*_, **__):
  raise AssertionError('parameters are made')


@pytest.mark.parametrize('field', ['role.policy_2', 'service.user'])
def test_a_player_of_another_vocabulary_is_refused_before_anything_compiles(
  tmp_path, monkeypatch, field
):
  """A seat, or a user, that another run's policy plays."""
  elsewhere = str(tmp_path / 'elsewhere')
  workdir.keep_config(small_configs.checkpoint(tmp_path, 'a/model'), elsewhere)
  if field == 'service.user':
    c = small_configs.interview(tmp_path, run=elsewhere)
    c.rollout.update(dict(max_turns=4, max_message_tokens=24))
  else:
    c = config()
    c.env.update(dict(train=8, test=4))
    base.role(c, 'policy_2', kind='frozen', run=elsewhere)
  c.data = str(tmp_path / 'data')
  monkeypatch.setattr(weights, 'restore_or_init', never)
  with errors.raises(ValueError, f'{field}.run model.path a/model') as caught:
    runner.run(c, str(tmp_path / 'run'))
  assert '\n' not in str(caught.value)
  assert not (tmp_path / 'run').exists()
