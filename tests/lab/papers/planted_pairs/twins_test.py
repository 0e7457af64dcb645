"""Planted faults: what they leave as it was, and their rules by the world's."""

import jax
import numpy as np
import pytest

from agentrl.env.jit import sokoban_levels
from agentrl.lab.papers.planted_pairs import twins

LEVELS = sokoban_levels.Generated(min_moves=4, max_moves=12)
TASKS = list(LEVELS.tasks('train', 40, 0))


def planted(seed=0):
  rng = np.random.default_rng(seed)
  for x in TASKS:
    if found := twins.planted(x.task, LEVELS.width, x.actions, rng):
      yield x, found


def test_moves_are_those_of_the_world():
  env = sokoban_levels.env_for(LEVELS)
  actions = np.random.default_rng(0).integers(-1, 4, 60)
  key = jax.random.key(0)

  @jax.jit
  def play(task):
    def step(state, action):
      return env.step(state, action, key)[0], (state.player, state.boxes)

    return jax.lax.scan(step, env.reset(key, task)[0], actions)[1]

  for x in TASKS[:10]:
    board = twins.Board(x.task['walls'], x.task['targets'], LEVELS.width)
    start = int(x.task['player']), int(np.argmax(x.task['boxes']))
    player, boxes = play(x.task)
    want = list(zip(player.tolist(), boxes.argmax(1).tolist(), strict=True))
    got = twins.positions(board, *start, actions)
    assert got[:-1] == want


def test_a_fault_is_where_its_record_says_and_the_rest_is_the_solvers():
  for x, found in planted():
    own, n = list(x.actions), len(x.actions)
    assert tuple(f.kind for f in found) == twins.KINDS
    for kind, turn, actions in found:
      assert actions[:turn] == own[:turn]
      assert len(actions) == n + twins.DETOUR * (kind == 'detour')
      if kind in ('wrong', 'invalid'):
        assert actions[turn] != own[turn]
        assert actions[turn + 1 :] == own[turn + 1 :]
        assert (actions[turn] == twins.NO_ACTION) == (kind == 'invalid')
      else:
        laps = twins.LAPS if kind == 'loop' else 1
        end = turn + laps * twins.DETOUR
        there, back = actions[turn : turn + 2]
        assert actions[turn:end] == laps * [there, back]
        assert back == twins.BACK[there]
        assert actions[end:] == own[turn : turn + len(actions) - end]


def test_all_turns_are_reached_by_faults():
  """Not the first alone: the draw is uniform among where a fault is one."""
  share = [[], [], [], []]
  for seed in range(3):
    for x, found in planted(seed):
      for of, f in zip(share, found, strict=True):
        of.append(f.turn / len(x.actions))
  for of in share[:2]:  # loops need room behind them
    assert 0.3 < np.mean(of) < 0.6
    assert max(of) > 0.8
  assert np.mean(share[3]) > 0.3


def test_a_level_without_room_has_no_twins():
  walls = np.ones((3, 5), bool)
  walls[1, 1:4] = False
  task = {
    'walls': walls.reshape(-1),
    'targets': np.arange(15) == 8,
    'boxes': np.arange(15) == 7,
    'player': np.int32(6),
  }
  assert twins.planted(task, 5, [3], np.random.default_rng(0)) == []


@pytest.mark.parametrize('kind', twins.EQUAL)
def test_twins_of_equal_length_leave_the_level_unsolved(kind):
  for x, found in planted(1):
    board = twins.Board(x.task['walls'], x.task['targets'], LEVELS.width)
    start = int(x.task['player']), int(np.argmax(x.task['boxes']))
    fault = found[twins.KINDS.index(kind)]
    _, box = twins.positions(board, *start, fault.actions)[-1]
    assert not board.targets[box]
