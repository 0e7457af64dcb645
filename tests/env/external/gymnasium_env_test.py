"""Gymnasium's interface, played in this process."""

import random

import pytest

from agentrl.env.external.gymnasium_env import GymnasiumMaker
from tests import errors
from tests.env.promises import play

ENVS = 'tests.env.external.text_envs'


@pytest.fixture
def env():
  state = random.getstate()
  yield GymnasiumMaker(f'{ENVS}:make', '', '', solved=0.75).env()
  random.setstate(state)


def test_rewards_add_up_to_the_score(env):
  number = random.Random(5).randrange(8)
  other = str((number + 1) % 8)
  for misses, score in ((0, 1.0), (1, 1.0), (2, 0.0)):
    *_, last = play(env, {'seed': 5}, [other] * misses + [str(number)])
    assert (last.reward, last.done, last.score) == (1.0, True, score)
    assert last.info == {'truncated': 0.0}


def test_a_truncated_episode_is_done(env):
  first, *steps = play(env, {'seed': 5}, ['x'] * 9)
  assert first.startswith('below 8')
  assert [x.done for x in steps] == [False, False, False, True]
  assert [x.info['truncated'] for x in steps] == [0.0, 0.0, 0.0, 1.0]
  assert [x.score for x in steps] == [0.0] * 4
  assert sum(x.reward for x in steps) == -1.0


def test_an_episode_follows_from_its_seed(env):
  once = [play(env, {'seed': seed}, ['x', '0']) for seed in range(8)]
  random.seed(99)
  assert [play(env, {'seed': seed}, ['x', '0']) for seed in range(8)] == once
  assert len({x[0] for x in once}) == 8


def test_an_answer_in_another_form_is_an_error(env):
  env.reset({'seed': 0}, 0)
  with errors.raises(TypeError, 'three 0.0'):
    env.step('wrong')
  made = GymnasiumMaker(f'{ENVS}:bare', '', '', solved=1.0).env()
  with pytest.raises(TypeError):
    made.reset({'seed': 0}, 0)


def test_an_object_without_the_interface_is_refused():
  maker = GymnasiumMaker(f'{ENVS}:nothing', '', '', solved=1.0)
  with pytest.raises(ValueError):
    maker.env()
