"""Maps of the coin collector: a tree, its law, its key, what is remembered."""

import collections
import importlib.util

import numpy as np
import pytest

from agentrl.env.external.textworld import maps
from agentrl.runtime import install
from tests import errors


def draws(level, n=40):
  rng = np.random.default_rng(level)
  return [maps.draw(level, rng) for _ in range(n)]


@pytest.mark.parametrize('level', [1, 5, 103, 205])
def test_rooms_form_a_tree(level):
  length, dead = maps.size(level)
  for plan in draws(level):
    rooms = plan.exits()
    assert len(rooms) == length * (dead + 1)
    assert sum(map(len, rooms)) == 2 * (len(rooms) - 1)
    for here, exits in enumerate(rooms):
      for side, there in exits.items():
        assert rooms[there][maps.opposite(side)] == here
    far = maps.to_coin(rooms, length - 1)
    assert far[:length] == list(range(length))[::-1]
    assert all(len(rooms[i]) == 1 for i in range(length, len(rooms)))


def test_sides_are_equally_likely():
  ways = collections.Counter(p.way for p in draws(3, 6000))
  assert set(ways) == {
    a + b for a in 'nesw' for b in 'nesw' if b != maps.opposite(a)
  }
  np.testing.assert_allclose(list(ways.values()), 500, atol=110)  # 5 sigma


def test_key_is_blind_to_turns_and_mirrors_alone():
  plan = maps.CoinMap('ne', 'wsw')
  for table in ('eswn', 'swne', 'nwse', 'wsen'):
    to = str.maketrans('nesw', table)
    moved = maps.CoinMap(plan.way.translate(to), plan.ends.translate(to))
    assert moved.key() == plan.key()
  assert maps.CoinMap('nn', 'wsw').key() != plan.key()
  assert maps.CoinMap('ne', 'wsn').key() != plan.key()


def test_marks_by_hand():
  rooms = maps.CoinMap(
    'ne', 'ews'
  ).exits()  # 0 n 1 e 2; ends e of 0, w of 1, s of 2
  assert maps.marks(rooms, {0}, 0) == 'n? e? s- w-'
  assert maps.marks(rooms, {0, 3}, 3) == 'n- e- s- w+'
  assert maps.marks(rooms, {0, 3}, 0) == 'n? e. s- w-'
  assert maps.marks(rooms, {0, 1, 3}, 1) == 'n- e? s. w?'


@pytest.mark.parametrize('level', [4, 107, 206])
def test_marks_are_enough_to_find_every_coin(level):
  """The last observation alone: '?' before '+'."""
  for plan in draws(level, 20):
    rooms, here, seen, moves = plan.exits(), 0, {0}, 0
    while here != len(plan.way):
      shown = maps.marks(rooms, seen, here).split()
      new = [m[0] for m in shown if m[1] == '?']
      old = [m[0] for m in shown if m[1] == '+']
      here = rooms[here][(new or old)[-1]]
      seen.add(here)
      moves += 1
      assert moves <= 2 * len(rooms)


@pytest.mark.parametrize('level', [0, -5, 151, 201 + 33, 301])
def test_levels_textworld_has_not(level):
  with errors.raises(ValueError, f'{level} TextWorld'):
    maps.size(level)


@pytest.mark.nightly
@pytest.mark.skipif(
  importlib.util.find_spec('textworld') is None,
  reason=f'needs textworld: {install.command("games")}',
)
@pytest.mark.parametrize('level', [4, 103, 203])
def test_maps_follow_textworlds_own_law(level):
  """Its challenge's games have the rooms and the way that `coins` draws."""
  import textworld
  from textworld.challenges.tw_coin_collector import coin_collector

  length, dead = maps.size(level)
  for seed in range(3):
    options = textworld.GameOptions()
    options.seeds = seed
    game = coin_collector.make({'level': level}, options)
    links = [
      (f.name[0], f.arguments[1].name, f.arguments[0].name)
      for f in game.world.info
      if f.name.endswith('_of')
    ]
    rooms = {f'r_{i}': {} for i in range(length * (dead + 1))}
    for side, here, there in links:
      rooms[here][side] = there
    way = ''.join(c[3] for c in game.walkthrough[:-1])
    ends = ''.join(
      next(s for s, r in rooms[f'r_{j % length}'].items() if r == f'r_{k}')
      for j, k in enumerate(range(length, length * (dead + 1)))
    )
    mine = [
      {side: f'r_{there}' for side, there in exits.items()}
      for exits in maps.CoinMap(way, ends).exits()
    ]
    assert mine == list(rooms.values())
