"""PettingZoo's games as a family; with the package itself where it is.

AGENTRL_PETTINGZOO_PYTHON is the interpreter of a virtual environment with
pettingzoo and pygame.
"""

import os

import pytest

from agentrl.configs import grpo
from agentrl.env import base, splits
from agentrl.env.external.pettingzoo import PettingZoo
from agentrl.rollout.workers import pool
from agentrl.run.play import host_env
from agentrl.text import tokenizer
from tests import errors

GAMES = 'tests.env.external.aec_games'
PYTHON = os.environ.get('AGENTRL_PETTINGZOO_PYTHON', '')
WAIT = 60


def test_tasks_are_seeds_and_seats():
  family = PettingZoo(make=f'{GAMES}:count', players=3)
  tasks = [x for s in splits.SPLITS for x in family.tasks(s, 20, 0)]
  assert len({x.key for x in tasks}) == 40
  assert {x.task['player'] for x in tasks} == {0, 1, 2}
  every = PettingZoo(make=f'{GAMES}:word_sum', seats='all')
  assert all(set(x.task) == {'seed'} for x in every.tasks('test', 4, 0))
  assert isinstance(family, base.OwnProcess)


def test_it_plays_in_a_process():
  family = PettingZoo(make=f'{GAMES}:count', settings='end=3')
  with pool.env_workers(family, 1) as workers:
    text = workers[0].reset({'seed': 0, 'player': 0}, 0).result(WAIT)
    assert text.splitlines()[-1].startswith('Actions: 1')
    reply = workers[0].step('1').result(WAIT)
    assert set(reply.info) == {'seat', 'truncated'}


@pytest.mark.parametrize(
  ('env', 'words'),
  [
    ({}, 'env.make'),
    ({'make': f'{GAMES}:count', 'show': 'lost:it'}, 'env.show lost:it'),
    ({'make': f'{GAMES}:count', 'read': 'read'}, 'env.read read'),
    ({'make': f'{GAMES}:count', 'settings': '3'}, 'env.settings 3'),
  ],
)
def test_mistakes_come_before_anything_is_made(env, words):
  c = grpo.get_config('tiny,env=pettingzoo')
  c.env.update(env)
  with errors.raises(ValueError, words):
    host_env.sized(c, tokenizer.Embedded(), None)


@pytest.mark.nightly
@pytest.mark.skipif(not PYTHON, reason='set AGENTRL_PETTINGZOO_PYTHON')
def test_tic_tac_toe_of_the_package():
  family = PettingZoo(make='pettingzoo.classic.tictactoe_v3:env', python=PYTHON)
  family.check()
  with pool.env_workers(family, 1) as workers:
    scores = []
    for seed in range(20):
      task = {'seed': seed, 'player': seed % 2}
      text = workers[0].reset(task, seed).result(WAIT)
      done = False
      while not done:
        move = text.split('Actions: ')[1].split()[0]
        text, reward, done, score, invalid, _, info = (
          workers[0].step(move).result(WAIT)
        )
        assert not invalid
      assert reward in (-1.0, 0.0, 1.0)
      assert info['seat'] == seed % 2
      scores.append(score)
    assert 0 < sum(scores) < 20
