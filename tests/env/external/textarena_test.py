"""TextArena keeps what every host family promises."""

import json
import random
import sys
import types

import pytest

from agentrl.env import seats
from agentrl.env.external import textarena
from tests import errors
from tests.env.promises import Case, Promises


class Cards:
  """A game with textarena's interface: the higher card wins, if it is shown.

  A first wrong move is repeated; a second one loses.
  """

  def reset(self, num_players, seed=None):
    assert num_players == 2
    deck = [1, 2, 3]
    random.shuffle(deck)  # as the package does: whoever's generator it is
    self.cards, self.shown = deck[:2], []
    self.state = types.SimpleNamespace(
      current_player_id=0,
      rewards=None,
      error_count=0,
      game_info={i: {'invalid_move': False} for i in (0, 1)},
    )
    self.heard = {i: [(-1, f'You hold {self.cards[i]}. ', 1)] for i in (0, 1)}

  def get_observation(self):
    me = self.state.current_player_id
    messages, self.heard[me] = self.heard[me], []
    return me, messages

  def step(self, move):
    state, me = self.state, self.state.current_player_id
    for i in (0, 1):
      self.heard[i].append((me, move, 2))
    if move not in ('[check]', '[bet]'):
      if state.error_count:
        state.game_info[me]['invalid_move'] = True
        state.rewards = {me: -1, 1 - me: 1}
        return True, {}
      state.error_count = 1
      self.heard[me].append((-1, 'Try again.', 1))
      return False, {}
    self.shown.append(move)
    if len(self.shown) == 2:
      won = int(self.cards[1] > self.cards[0])
      state.rewards = {won: 1, 1 - won: -1}
      return True, {}
    state.current_player_id, state.error_count = 1 - me, 0
    return False, {}


@pytest.fixture
def arena(monkeypatch):
  """The package, with one game."""
  name = 'textarena.envs.registration'
  package = types.ModuleType('textarena')
  package.make = lambda id: Cards()
  there = types.SimpleNamespace(ENV_REGISTRY={'KuhnPoker-v0-raw': Cards})
  monkeypatch.setitem(sys.modules, 'textarena', package)
  monkeypatch.setitem(sys.modules, 'textarena.envs', package)
  monkeypatch.setitem(sys.modules, name, there)


def test_both_seats_are_conversations_of_their_own(arena):
  family = textarena.TextArena('KuhnPoker-v0', opponent='')
  assert seats.names(family) == ('player 0', 'player 1')
  won = set()
  for seed in range(12):
    before = random.getstate()
    env = family.env()
    first = json.loads(env.reset({'seed': seed}, 3))
    second = json.loads(env.step('check').text)
    held = [int(x['text'].split('hold ')[1][0]) for x in (first, second)]
    assert (first['seat'], second['seat']) == (0, 1)
    assert first['text'] == f'You hold {held[0]}.'
    assert second['text'] == f'You hold {held[1]}.\n[check]'
    last = env.step('[bet]')
    told = json.loads(last.text)
    better = int(held[1] > held[0])
    assert last.done
    assert told['reward'] == [1 - 2 * better, 2 * better - 1]
    assert told['score'] == [1 - better, better]
    assert first == json.loads(env.reset({'seed': seed}, 9))
    assert random.getstate() == before
    won.add(better)
  assert won == {0, 1}


def test_a_wrong_move_is_asked_again_and_then_loses(arena):
  env = textarena.TextArena('KuhnPoker-v0', opponent='').env()
  env.reset({'seed': 0}, 0)
  again = env.step('fly')
  assert again.invalid
  told = json.loads(again.text)
  assert (told['seat'], told['text']) == (0, 'Try again.')
  last = env.step('fly')
  assert (last.done, last.invalid) == (True, True)
  assert json.loads(last.text)['reward'] == [-1, 1]


def test_one_seat_as_before(arena):
  family = textarena.TextArena('KuhnPoker-v0')
  assert seats.names(family) == ()
  assert all('player' in x.task for x in family.tasks('train', 3, 0))
  both = textarena.TextArena('KuhnPoker-v0', opponent='')
  assert all({*x.task} == {'seed'} for x in both.tasks('train', 3, 0))
  env = family.env()
  for player in (0, 1):
    text = env.reset({'seed': 1, 'player': player}, 0)
    assert text.startswith('You hold')
    assert len(text.splitlines()) == 1 + player  # who moves first is heard
    last = env.step('[bet]')
    assert last.done
    assert last.reward in (-1, 1)
  with errors.raises(ValueError, 'opponent Sudoku'):
    textarena.TextArena('Sudoku-v0', opponent='')


class TestTextArena(Promises):
  cases = tuple(
    Case(
      name='textarena',
      package='textarena',
      extra='games',
      fields={'id': f'{game}-v0'},
      slow=True,  # takes seconds to import
    )
    for game in sorted((*textarena.ALONE, *textarena.MOVES))
  )
  refused = (({'id': 'Wordle-v0'}, ''), ({'id': 'Halma-v0'}, ''))
