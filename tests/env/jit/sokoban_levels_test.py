"""Level text, its check, keys and generated levels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.env import splits
from agentrl.env.jit import sokoban_levels, sokoban_solver
from agentrl.env.jit.sokoban_levels import Generated
from tests import errors
from tests.env.jit.levels import as_text

SOURCES = [
  Generated(),
  Generated(7, 5, 1, min_moves=6, max_moves=20),
  Generated(8, 8, 2, min_moves=8, max_moves=24),
]


def level_of(solved, source):
  shape = source.height, source.width
  masks = [solved.task[k].reshape(shape) for k in ('walls', 'targets', 'boxes')]
  return sokoban_solver.SolverLevel(*masks, int(solved.task['player']))


def forms(level):
  """The level mirrored and turned in all eight ways."""
  at = np.arange(level.walls.size).reshape(level.walls.shape) == level.player
  for k in range(4):
    for flip in (1, -1):
      turn = [np.rot90(x[:, ::flip], k) for x in (*level[:3], at)]
      yield sokoban_solver.SolverLevel(*turn[:3], int(np.argmax(turn[3])))


@pytest.mark.parametrize('source', SOURCES, ids=lambda s: s.name())
def test_demonstrations_solve_in_the_jitted_env(source):
  env = sokoban_levels.env_for(source)
  step = jax.jit(env.step)
  for solved in source.tasks('train', 12, 4):
    state, _ = env.reset(jax.random.key(0), solved.task)
    assert source.min_moves <= len(solved.actions) <= source.max_moves
    for k, action in enumerate(solved.actions):
      assert float(env.score(state)) == 0
      state, _, _, done = step(state, jnp.int32(action), jax.random.key(k))
    assert done
    assert float(env.score(state)) == 1
    if env.truth:
      box = int(np.argmax(solved.task['boxes']))
      pair = int(solved.task['player']) * len(solved.task['walls']) + box
      assert solved.task['distance'][pair] == len(solved.actions)


@pytest.mark.parametrize('source', SOURCES, ids=lambda s: s.name())
def test_splits_share_no_level_not_even_mirrored(source):
  train = list(source.tasks('train', 40, 0))
  test = list(source.tasks('test', 20, 1))
  texts = {
    as_text(form)
    for solved in train
    for form in forms(level_of(solved, source))
  }
  for solved in test:
    assert as_text(level_of(solved, source)) not in texts
  assert len({s.key for s in train}) == 40
  assert len({s.key for s in test}) == 20
  assert {splits.split_of(s.key) for s in train} == {'train'}
  assert {splits.split_of(s.key) for s in test} == {'test'}


def test_the_same_seed_gives_the_same_levels_and_a_longer_list_begins_alike():
  def texts(count, seed):
    return [
      (as_text(level_of(s, SOURCES[0])), s.actions, s.key)
      for s in SOURCES[0].tasks('train', count, seed)
    ]

  assert texts(10, 7) == texts(10, 7)
  assert texts(20, 7)[:10] == texts(10, 7)
  assert texts(10, 7) != texts(10, 8)


ROOM = ['######', '#@ $.#', '#  # #', '######']


def key(*rows):
  return sokoban_levels.level_key(sokoban_levels.parse_level(rows))


def test_key_sees_through_symmetry_shift_and_closed_off_cells():
  level = sokoban_levels.parse_level(ROOM)
  keys = {sokoban_levels.level_key(form) for form in forms(level)}
  keys.add(key('########', '########', *(f'#{row}#' for row in ROOM)))
  keys.add(key(*ROOM, '#   ##', '######'))
  assert keys == {key(*ROOM)}
  top, bottom = ('######', '#@ $.#', '#  ###'), '######'
  assert key(*top, '#  # #', bottom) == key(*top, '#  ###', bottom)


def test_key_sees_every_difference():
  keys = {
    key(*ROOM),
    key('######', '# @$.#', '#  # #', '######'),  # player
    key('######', '#@$ .#', '#  # #', '######'),  # box
    key('######', '#@ $ #', '#  #.#', '######'),  # target
    key('######', '#@ .$#', '#  # #', '######'),  # both
    key('######', '#@ $.#', '#    #', '######'),  # wall
    key('######', '#+ $.#', '#  # #', '######'),  # more targets
  }
  assert len(keys) == 7


def test_all_free_cells_are_one_room():
  for solved in Generated(wall_density=0.5, min_moves=1).tasks('train', 20, 0):
    level = level_of(solved, SOURCES[0])
    free = sokoban_solver.to_bits(~level.walls)
    assert sokoban_solver.flood(free, 1 << level.player, 6) == free


def test_text_round_trip():
  rows = ['#######', '#+* $.#', '# #  ##', '####  #', '#######']
  level = sokoban_levels.parse_level(rows)
  assert as_text(level) == '\n'.join(rows)


def test_short_rows_end_in_walls():
  level = sokoban_levels.parse_level(['####', '#  ###', '#@$ .#', '######'])
  assert level.walls.shape == (4, 6)
  np.testing.assert_array_equal(level.walls[0], [True] * 6)


@pytest.mark.parametrize(
  ('rows', 'message'),
  [
    (['#####', '#$ .#', '#####'], '10'),
    (['#####', '#@$.#', '#@  #', '#####'], '12 2'),
    (['#####', '#@ .#', '#####'], '10'),
    (['######', '#@$$.#', '######'], '10 2 1'),
    (['#####', '#@ *#', '#####'], '10'),
    (['#####', '#@$. ', '#####'], '11 5'),
    (['#####', '#@$.#', '## ##'], '12 3'),
    (['#####', '#@$.#'], '11'),
    (['  @', '#####', '#$ .#', '#####'], '10 3'),
    (['#####', '#@B.#', '#####'], '11 B'),
    (['', '  '], '10'),
  ],
)
def test_wrong_levels_get_one_sentence_with_a_line(rows, message):
  with errors.raises(ValueError, message) as caught:
    sokoban_levels.parse_level(rows, 'mine.txt, level 4', 10)
  assert str(caught.value).startswith('mine.txt, level 4, line ')
  assert '\n' not in str(caught.value)


@pytest.mark.parametrize(
  ('fields', 'message'),
  [
    ({'height': 3, 'width': 4}, '3 4 1'),
    ({'boxes': 0}, 'boxes 0'),
    ({'min_moves': 12}, 'min_moves 12 max_moves 11'),
    ({'wall_density': 1.0}, 'wall_density 1.0 1'),
  ],
)
def test_wrong_settings(fields, message):
  with errors.raises(ValueError, message):
    Generated(**fields)


def test_a_name_is_of_the_settings_and_one_of_a_file():
  names = {Generated(wall_density=x).name() for x in (0.1, 0.1, 0.2)}
  assert len(names) == 2
  assert all(n.replace('-', '').replace('_', '').isalnum() for n in names)


def test_env_for_fits_and_takes_rewards():
  env = sokoban_levels.env_for(SOURCES[2], on_reward=5.0)
  assert (env.height, env.width, env.boxes, env.truth) == (8, 8, 2, False)
  assert env.on_reward == 5
  assert sokoban_levels.env_for(SOURCES[0]).truth
  assert not sokoban_levels.env_for(SOURCES[0], truth=False).truth
