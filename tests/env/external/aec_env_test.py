"""Agents by turns: one seat against chance, or every seat."""

import json
import random
import types

import pytest

from agentrl.env.external import aec_env
from agentrl.env.external.aec_env import AecMaker
from tests import errors

GAMES = 'tests.env.external.aec_games'
PLAIN = dict(
  make=f'{GAMES}:count',
  id='',
  settings='',
  seats='one',
  players=2,
  show='',
  read='',
  solved=1.0,
)


@pytest.fixture(autouse=True)
def generators():
  state = random.getstate()
  yield
  random.setstate(state)


def made(**changes):
  return AecMaker(**(PLAIN | changes)).env()


def first_allowed(env):
  return str(env._allowed[0])


@pytest.mark.parametrize('player', [0, 1, 2])
@pytest.mark.parametrize('players', [2, 3])
def test_one_seat_gets_its_own_rewards(players, player):
  """Compared with who made the last move of the game itself."""
  if player >= players:
    return
  env = made(settings=f'players={players}', players=players)
  won = 0
  for seed in range(12):
    env.reset({'seed': seed, 'player': player}, seed)
    steps = []
    while not steps or not steps[-1].done:
      assert env._env.agent_selection == f'player_{player}'
      steps.append(env.step(first_allowed(env)))
    log = env._env.log
    mine = log[-1][0] == f'player_{player}'
    assert sum(x.reward for x in steps) == (1.0 if mine else -1.0)
    assert steps[-1].score == float(mine)
    assert all(x.reward == 0 and x.score == 0 for x in steps[:-1])
    assert len(steps) == sum(who == f'player_{player}' for who, _ in log)
    assert {x.info['seat'] for x in steps} == {float(player)}
    won += mine
  assert 0 < won < 12


def test_the_others_follow_from_the_seed():
  env = made()

  def log(task, seed):
    env.reset(task, seed)
    while not env.step(first_allowed(env)).done:
      pass
    return tuple(env._env.log)

  task = {'seed': 4, 'player': 1}
  assert log(task, 7) == log(task, 7)
  assert len({log(task, seed) for seed in range(10)}) > 1


def test_chance_without_a_mask_samples_the_space():
  env = made(settings='mask=False')
  texts = {env.reset({'seed': 1, 'player': 1}, seed) for seed in range(20)}
  assert len(texts) == 3  # after 1, 2 or 3
  once = env.reset({'seed': 1, 'player': 1}, 3)
  assert env.reset({'seed': 1, 'player': 1}, 3) == once


def test_every_seat_by_turns_adds_rewards_up():
  env = made(
    make=f'{GAMES}:word_sum', settings='players=3', seats='all', solved=12.0
  )
  assert env.reset({'seed': 0}, 0) == 'player_0:\nsay 0'
  steps = [env.step('yes' if k != 4 else 'no') for k in range(6)]
  assert [x.info['seat'] for x in steps] == [0.0, 1.0, 2.0] * 2
  assert [x.done for x in steps] == [False] * 5 + [True]
  # An agent is told when it is its turn again: 1, 2, 3 in the second round.
  assert [x.reward for x in steps] == [0, 0, 1, 2, 3, 1 + 0 + 3]
  assert steps[-1].score == 0.0
  assert steps[-1].info['truncated'] == 1.0
  env.reset({'seed': 0}, 0)
  assert [env.step('yes') for _ in range(6)][-1].score == 1.0


def each(**changes):
  return made(**(dict(seats='each') | changes))


def test_each_seat_is_asked_by_itself_and_gets_its_own_rewards():
  """Count, whose last move wins, and which shows both the same number."""
  won = 0
  for seed in range(12):
    env = each()
    told, log, earned = json.loads(env.reset({'seed': seed}, 0)), [], [0.0] * 2
    while told['seat'] is not None:
      log.append(told['seat'])
      move = told['text'].split('Actions: ')[1].split()[0]
      told = json.loads(env.step(move).text)
      earned = [a + b for a, b in zip(earned, told['reward'], strict=True)]
      assert told['info'][log[-1]]['seat'] == log[-1]
    assert log == [i % 2 for i in range(len(log))]
    last = log[-1]
    assert earned == [1.0 if i == last else -1.0 for i in (0, 1)]
    assert told['score'] == [float(i == last) for i in (0, 1)]
    won += last
  assert 0 < won < 12


@pytest.mark.parametrize(
  ('solved', 'score'), [(4, [0, 1, 1]), (4.5, [0, 0, 1])]
)
def test_each_seat_is_paid_when_its_turn_comes_and_cut_alike(solved, score):
  env = each(
    make=f'{GAMES}:word_sum', settings='players=3', players=3, solved=solved
  )
  told = json.loads(env.reset({'seed': 0}, 0))
  assert (told['seat'], told['text']) == (0, 'say 0')
  rewards = []
  for _ in range(6):
    step = env.step('yes')
    told = json.loads(step.text)
    rewards.append(told['reward'])
  assert rewards[2:] == [[1, 0, 0], [0, 2, 0], [0, 0, 3], [1, 2, 3]]
  assert (step.done, told['score']) == (True, score)
  assert all(x['truncated'] == 1 for x in told['info'])


def test_a_seat_that_names_no_action_is_asked_again():
  env = each()
  told = json.loads(env.reset({'seed': 0}, 0))
  for message in ('', 'x', '9', '0'):
    step = env.step(message)
    again = json.loads(step.text)
    assert step.invalid
    assert again['seat'] == told['seat'] == 0
    assert again['text'].endswith(told['text'])
    assert again['reward'] == [0, 0]
  with errors.raises(ValueError, 'env.players 3 2'):
    each(players=3)


def test_a_move_that_is_none_is_no_turn_of_the_game():
  env = made()
  text = env.reset({'seed': 0, 'player': 0}, 0)
  for message in ('', 'x', '9', '0', '²', '1.0', '-1'):
    reply = env.step(message)
    assert reply.invalid is True
    assert reply.info.keys() >= {'truncated'}
    assert not reply.done
    assert reply.text.endswith(text)
    assert not env._env.log


def test_words_of_the_user():
  env = made(show=f'{GAMES}:show', read=f'{GAMES}:read')
  assert env.reset({'seed': 0, 'player': 0}, 0).startswith('player_0 sees ')
  assert 'say one, two or three' in env.step('1').text
  env.step('two')
  assert env._env.log[0] == ('player_0', 2)


def test_numbers_of_a_space_that_begins_elsewhere():
  space = types.SimpleNamespace(n=3, start=5)
  assert aec_env.parse('7', space) == 7
  for message in ('4', '8'):
    with errors.raises(ValueError, '5 7'):
      aec_env.parse(message, space)
  assert aec_env.parse('8', object()) == '8'


def test_masks():
  assert aec_env.mask_of({'action_mask': [1, 0, 1]}, {}) == [0, 2]
  assert aec_env.mask_of([3], {'action_mask': [0, 1]}) == [1]
  assert aec_env.mask_of('text', {}) is None
  assert aec_env.describe({'observation': 5, 'action_mask': [0, 1]}, '') == (
    '5\nActions: 1'
  )


def test_mistakes():
  with errors.raises(ValueError, 'env.players 3 2'):
    made(players=3)
  with pytest.raises(ValueError):
    made(make='tests.env.external.text_envs:nothing')


def test_an_episode_that_is_over_at_once(monkeypatch):
  env = made()
  monkeypatch.setattr(env._env, 'reset', lambda seed: None)
  env._env.agents = []
  with pytest.raises(RuntimeError):
    env.reset({'seed': 0, 'player': 1}, 0)
