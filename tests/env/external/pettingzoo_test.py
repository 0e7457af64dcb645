"""PettingZoo's games as a family; with the package itself where it is.

AGENTRL_PETTINGZOO_PYTHON is the interpreter of a virtual environment with
pettingzoo and pygame.
"""

import json
import os

import pytest

from agentrl.configs import envs, grpo
from agentrl.env import seats
from agentrl.env.external.pettingzoo import PettingZoo
from agentrl.rollout.workers import pool
from tests.env.external import configured

GAMES = 'tests.env.external.aec_games'
PYTHON = os.environ.get('AGENTRL_PETTINGZOO_PYTHON', '')
WAIT = 60


def test_it_plays_in_a_process():
  family = PettingZoo(make=f'{GAMES}:count', settings='end=3')
  with pool.env_workers(family, 1) as workers:
    text = workers[0].reset({'seed': 0, 'player': 0}, 0).result(WAIT)
    assert text.splitlines()[-1].startswith('Actions: 1')
    reply = workers[0].step('1').result(WAIT)
    assert set(reply.info) == {'seat', 'truncated'}


def test_mistakes_come_before_anything_is_made():
  configured.refuses('pettingzoo', 'env.make')
  for field, value in (
    ('show', 'lost:it'),
    ('read', 'read'),
    ('settings', '3'),
  ):
    fields = {'make': f'{GAMES}:count', field: value}
    configured.refuses('pettingzoo', f'env.{field} {value}', **fields)


def test_each_seat_is_one_only_where_it_is_asked_for():
  make = f'{GAMES}:count'
  assert seats.names(PettingZoo(make=make)) == ()
  assert seats.names(PettingZoo(make=make, seats='all')) == ()
  family = PettingZoo(make=make, seats='each', players=3)
  assert seats.names(family) == ('seat 0', 'seat 1', 'seat 2')
  assert all({*x.task} == {'seed'} for x in family.tasks('train', 4, 0))
  envs_of = [grpo.get_config('env=pettingzoo') for _ in 'ab']
  for c, value in zip(envs_of, ('one', 'each'), strict=True):
    c.env.update(dict(make=make, seats=value))
  assert [envs.columns(c) for c in envs_of] == [(), ('agent', 'seat', 'match')]


@pytest.mark.nightly
@pytest.mark.skipif(not PYTHON, reason='set AGENTRL_PETTINGZOO_PYTHON')
def test_each_seat_of_the_package():
  make = 'pettingzoo.classic.tictactoe_v3:env'
  family = PettingZoo(make=make, python=PYTHON, seats='each')
  with pool.env_workers(family, 1) as workers:
    told = json.loads(workers[0].reset({'seed': 0}, 0).result(WAIT))
    asked = []
    while told['seat'] is not None:
      asked.append(told['seat'])
      move = told['text'].split('Actions: ')[1].split()[0]
      told = json.loads(workers[0].step(move).result(WAIT).text)
    assert asked == [i % 2 for i in range(len(asked))]
    assert sum(told['reward']) == 0


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


def test_only_where_one_plays_a_task_has_a_seat():
  one = PettingZoo(make=f'{GAMES}:count', players=3).tasks('train', 20, 0)
  assert {x.task['player'] for x in one} == {0, 1, 2}
  every = PettingZoo(make=f'{GAMES}:word_sum', seats='all').tasks('test', 4, 0)
  assert all(set(x.task) == {'seed'} for x in every)
