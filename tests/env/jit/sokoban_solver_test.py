"""Shortest solutions against breadth-first search written plainly."""

import numpy as np
import pytest

from agentrl.env.jit import sokoban_levels, sokoban_solver
from tests import errors

DELTAS = ((-1, 0), (1, 0), (0, -1), (0, 1))


def plain_moves(walls, player, boxes):
  """Every (action, player, boxes) the rules allow; sets of (row, column)."""
  for action, (dr, dc) in enumerate(DELTAS):
    near = (player[0] + dr, player[1] + dc)
    far = (near[0] + dr, near[1] + dc)
    if near in walls:
      continue
    if near not in boxes:
      yield action, near, boxes
    elif far not in walls and far not in boxes:
      yield action, near, boxes - {near} | {far}


def plain_shortest(level):
  """Length of the shortest solution, or None; no pruning, no bound."""
  walls, targets, boxes = (
    frozenset(map(tuple, np.argwhere(mask).tolist())) for mask in level[:3]
  )
  player = divmod(level.player, level.walls.shape[1])
  queue, depth = [(player, boxes)], {(player, boxes): 0}
  for state in queue:
    if state[1] <= targets:
      return depth[state]
    for _, *after in plain_moves(walls, *state):
      if tuple(after) not in depth:
        depth[tuple(after)] = depth[state] + 1
        queue.append(tuple(after))
  return None


def solves(level, actions):
  """Whether the actions are legal and end with every box on a target."""
  walls, targets, boxes = (
    frozenset(map(tuple, np.argwhere(mask).tolist())) for mask in level[:3]
  )
  player = divmod(level.player, level.walls.shape[1])
  for action in actions:
    found = {a: after for a, *after in plain_moves(walls, player, boxes)}
    player, boxes = found[action]
  return boxes <= targets


def random_level(rng, height, width, boxes):
  """Any placement, solvable or not, boxes on targets included."""
  walls = np.ones((height, width), bool)
  walls[1:-1, 1:-1] = rng.random((height - 2, width - 2)) < 0.15
  free = np.flatnonzero(~walls)
  masks = []
  for _ in range(2):
    mask = np.zeros(height * width, bool)
    mask[rng.choice(free, boxes, replace=False)] = True
    masks.append(mask.reshape(height, width))
  player = int(rng.choice(free[~masks[1].reshape(-1)[free]]))
  return sokoban_solver.SolverLevel(walls, *masks, player)


@pytest.mark.parametrize(
  ('shape', 'boxes', 'count'),
  [((6, 6), 1, 60), ((5, 8), 2, 40), ((6, 6), 3, 12)],
)
def test_solutions_are_shortest(shape, boxes, count):
  rng = np.random.default_rng(boxes)
  unsolvable = 0
  for _ in range(count):
    level = random_level(rng, *shape, boxes)
    actions, want = sokoban_solver.solve(level), plain_shortest(level)
    if want is None:
      assert actions is None
      unsolvable += 1
    else:
      assert len(actions) == want
      assert solves(level, actions)
  assert 0 < unsolvable < count


def test_distance_table_against_plain_search_from_every_state():
  rng = np.random.default_rng(5)
  for shape in ((5, 5), (4, 7)):
    level = random_level(rng, *shape, 1)
    table = sokoban_solver.distance_table(level.walls, level.targets)
    cells = level.walls.size
    assert table.shape == (cells, cells)
    assert table.dtype == np.int16
    for player in range(cells):
      for box in range(cells):
        boxes = np.arange(cells).reshape(shape) == box
        blocked = level.walls.flat[player] or level.walls.flat[box]
        state = level._replace(boxes=boxes, player=player)
        want = None
        if not blocked and player != box:
          want = plain_shortest(state)
        assert table[player, box] == (-1 if want is None else want)


def test_the_way_down_the_table_is_a_shortest_solution():
  rng = np.random.default_rng(8)
  for _ in range(40):
    level = random_level(rng, 7, 6, 1)
    table = sokoban_solver.distance_table(level.walls, level.targets)
    box = int(np.argmax(level.boxes))
    if (length := table[level.player, box]) >= 0:
      down = sokoban_solver.descend(table, level.player, box, 6)
      assert len(down) == length
      assert solves(level, down)


def test_two_targets_for_one_box():
  level = sokoban_levels.parse_level(['########', '#.  $@.#', '########'])
  table = sokoban_solver.distance_table(level.walls, level.targets)
  assert table[level.player, int(np.argmax(level.boxes))] == 3


def test_descend_of_a_lost_position_is_refused():
  level = sokoban_levels.parse_level(['#####', '#$@.#', '#####'])
  table = sokoban_solver.distance_table(level.walls, level.targets)
  with errors.raises(ValueError, '7 6'):
    sokoban_solver.descend(table, 7, 6, 5)


def test_unsolvable_solved_and_cut_are_three_answers():
  lost = sokoban_levels.parse_level(['#####', '#$@.#', '#####'])
  assert sokoban_solver.solve(lost) is None
  level = sokoban_levels.parse_level(
    ['#######', '#@ $ .#', '# $  .#', '#     #', '#######']
  )
  actions = sokoban_solver.solve(level)
  assert sokoban_solver.solve(level, max_moves=len(actions)) == actions
  assert sokoban_solver.solve(level, max_moves=len(actions) - 1) is None
  with errors.raises(sokoban_solver.SearchLimitError, 'max_nodes 1'):
    sokoban_solver.solve(level, max_nodes=1)
  done = level._replace(boxes=level.targets)
  assert sokoban_solver.solve(done, max_nodes=0) == []


def test_a_box_out_of_reach_counts_only_where_it_stands():
  text = ['########', '#@$. #*#', '########']
  level = sokoban_levels.parse_level(text)
  assert sokoban_solver.solve(level) == [3]
  text = ['########', '#@$. #$#', '#   .###', '########']
  assert sokoban_solver.solve(sokoban_levels.parse_level(text)) is None


def test_bits_and_masks_are_inverse():
  mask = np.random.default_rng(0).random((5, 7)) < 0.4
  bits = sokoban_solver.to_bits(mask)
  assert bits.bit_count() == mask.sum()
  np.testing.assert_array_equal(sokoban_solver.to_mask(bits, (5, 7)), mask)
