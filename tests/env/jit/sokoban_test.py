"""The jitted rules against hand-made positions and a plain simulator."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.env.jit import base, sokoban, sokoban_levels, sokoban_solver
from tests import errors
from tests.env.jit import tasks as jit_tasks
from tests.env.jit.tasks import walk

UP, DOWN, LEFT, RIGHT = range(4)
KEY = jax.random.key(0)


def plain_step(cells, action):
  """The rules on {(row, column): symbol}, written without arrays.

  Returns (cells, reward) under the default rewards.
  """
  if not any(symbol == 'X' for symbol in cells.values()):
    return cells, 0.0
  if action < 0:
    return cells, -0.2
  lift = {'P': '_', 'S': 'O', 'X': '_', '*': 'O'}
  put = {'_': {'player': 'P', 'box': 'X'}, 'O': {'player': 'S', 'box': '*'}}
  r, c = next(at for at, symbol in cells.items() if symbol in 'PS')
  dr, dc = [(-1, 0), (1, 0), (0, -1), (0, 1)][action]
  near, far = (r + dr, c + dc), (r + 2 * dr, c + 2 * dc)
  new, reward = dict(cells), -0.1
  if new[near] in 'X*':
    if new[far] not in '_O':
      return cells, reward
    reward += (new[far] == 'O') - (new[near] == '*')
    new[far] = put[new[far]]['box']
    new[near] = lift[new[near]]
  if new[near] == '#':
    return cells, reward
  new[near] = put[new[near]]['player']
  new[r, c] = lift[new[r, c]]
  if not any(symbol == 'X' for symbol in new.values()):
    reward += 10
  return new, reward


def cells_of(text):
  rows = text.split('\n')
  return {
    (r, c): symbol for r, row in enumerate(rows) for c, symbol in enumerate(row)
  }


made = functools.cache(sokoban.Sokoban)


def start(text, **fields):
  """-> env, state of a level text, targets allowed to outnumber boxes."""
  level = sokoban_levels.parse_level(text.split('\n'))
  height, width = level.walls.shape
  env = made(height, width, int(level.boxes.sum()), **fields)
  table = None
  if env.truth:
    table = sokoban_solver.distance_table(level.walls, level.targets)
  task = sokoban_levels.level_task(level, table)
  return env, jit_tasks.jitted(env.reset)(KEY, task)[0]


@pytest.mark.parametrize(
  'source',
  [
    sokoban_levels.Generated(),
    sokoban_levels.Generated(5, 9, 2, min_moves=3, max_moves=25),
    pytest.param(
      sokoban_levels.Generated(8, 7, 3, min_moves=3, max_moves=25),
      marks=pytest.mark.nightly,
    ),
  ],
  ids=['6x6', '5x9 two boxes', '8x7 three boxes'],
)
def test_rules_match_a_plain_simulator(source):
  """100 levels x 40 moves each, random, with invalid ones and past the end."""
  levels = list(source.tasks('train', 100, 3))
  env = sokoban_levels.env_for(source)
  tasks = jit_tasks.stack(levels)
  actions = np.random.default_rng(1).integers(-1, 4, (100, 40))
  # Half of the trajectories begin with their solution, so that some end.
  for row, level in zip(actions[::2], levels[::2], strict=True):
    length = min(len(level.actions), 40)
    row[:length] = level.actions[:length]

  @jax.jit
  def run(tasks, actions):
    state, first = jax.vmap(env.reset, (None, 0))(KEY, tasks)

    def turn(state, action):
      keys = jax.random.split(KEY, 100)
      state, obs, reward, done = jax.vmap(env.step)(state, action, keys)
      return state, (obs, reward, done, jax.vmap(env.score)(state))

    return first, jax.lax.scan(turn, state, actions.T)[1]

  first, (obs, rewards, dones, scores) = jax.device_get(run(tasks, actions))
  solved_count = 0
  for b in range(100):
    cells = cells_of(base.render_text(env, first[b]))
    for k in range(40):
      cells, reward = plain_step(cells, actions[b, k])
      assert cells_of(base.render_text(env, obs[k, b])) == cells
      np.testing.assert_allclose(rewards[k, b], reward, atol=1e-5)
      solved = 'X' not in cells.values()
      assert dones[k, b] == solved
      assert scores[k, b] == solved
    solved_count += solved
  assert solved_count >= 50 if source.max_moves <= 11 else solved_count > 20


def test_sparse_pays_only_the_solved_level():
  env, state = start('######\n#@$ .#\n######', **sokoban.SPARSE)
  assert walk(env, state, [-1, UP, RIGHT, RIGHT])[2] == (0, 0, 0, 1)


def test_a_target_may_stay_empty():
  env, state = start('######\n#@$..#\n######')
  assert walk(env, state, [RIGHT])[3] == (True,)


def test_every_piece_shows_as_its_symbol():
  env, state = start('######\n#+*$ #\n#  . #\n######')
  text = base.render_text(env, env._observe(state))
  assert text == '######\n#S*X_#\n#__O_#\n######\n'


def test_coordinates_are_row_and_column_of_player_boxes_and_targets():
  env, state = start('######\n#@ $.#\n######', coordinates=True)
  _, (text,), *_ = walk(env, state, [LEFT])
  assert text == '######\n#P_XO#\n######\nP11X13O14\n'
  env, state = start(
    '############\n#@ $.  $.  #\n############', coordinates=True
  )
  _, (text,), *_ = walk(env, state, [RIGHT])
  assert text.endswith('\nP0102X0103X0107O0104O0108\n')
  assert len(env.pieces) == 8 + 12


def test_progress_is_the_change_of_discounted_distance():
  env, state = start('#######\n#@ $ .#\n#     #\n#######', truth=True)
  assert env.columns == ('progress',)
  # 3 moves away; after one 2; back to 3.
  *_, info = walk(env, state, [RIGHT, LEFT])
  np.testing.assert_allclose(info, [[0.081], [-0.081]], atol=1e-4)


def test_progress_falls_to_the_whole_value_when_the_level_is_lost():
  env, state = start('######\n#    #\n#@$. #\n#    #\n######', truth=True)
  # Below the box: 3 moves to come back and push. Then it is at the wall.
  _, texts, _, _, info = walk(env, state, [DOWN, RIGHT, UP])
  assert texts[-1].split('\n')[1] == '#_X__#'
  np.testing.assert_allclose(info[-1], [-(0.9**3)], atol=1e-4)


def test_facts_have_the_names_of_columns():
  for truth in (False, True):
    env, state = start('######\n#@$ .#\n######', truth=truth)
    assert tuple(env.info(state, jnp.int32(0), state)) == env.columns


def test_envs_are_static_arguments():
  assert hash(sokoban.Sokoban()) == hash(sokoban.Sokoban())
  assert sokoban.Sokoban() != sokoban.Sokoban(**sokoban.SPARSE)
  fields = {field.name for field in dataclasses.fields(sokoban.Sokoban)}
  assert set(sokoban.SPARSE) == {f for f in fields if f.endswith('_reward')}


def test_the_batch_may_be_sharded_over_an_explicit_mesh():
  source = sokoban_levels.Generated()
  env = sokoban_levels.env_for(source)
  levels = list(source.tasks('train', 8, 0))
  tasks = jit_tasks.stack(levels)
  actions = np.array([level.actions[0] for level in levels], np.int32)
  keys = jax.random.split(KEY, 8)

  @jax.jit
  def turn(tasks, actions, keys):
    before, _ = jax.vmap(env.reset)(keys, tasks)
    after, obs, reward, done = jax.vmap(env.step)(before, actions, keys)
    return obs, reward, done, jax.vmap(env.info)(before, actions, after)

  want = jax.device_get(turn(tasks, actions, keys))
  mesh = jax.make_mesh((8,), ('batch',))
  with jax.set_mesh(mesh):
    spread = jax.device_put((tasks, actions, keys), jax.P('batch'))
    got = turn(*spread)
    assert jax.typeof(got[0]).sharding.spec[0] == 'batch'
  jax.tree.map(np.testing.assert_array_equal, jax.device_get(got), want)


@pytest.mark.parametrize(
  ('fields', 'message'),
  [
    ({'boxes': 2, 'truth': True}, 'truth True boxes 1 2'),
    ({'height': 2}, '2 6'),
    ({'boxes': 0}, '1 box'),
  ],
)
def test_wrong_settings(fields, message):
  with errors.raises(ValueError, message):
    sokoban.Sokoban(**fields)


def test_wrong_tasks():
  (solved,) = sokoban_levels.Generated().tasks('train', 1, 0)
  with errors.raises(ValueError, '8'):
    sokoban.Sokoban(8, 8).reset(KEY, solved.task)
  bare = {k: v for k, v in solved.task.items() if k != 'distance'}
  with errors.raises(ValueError, 'truth True'):
    sokoban.Sokoban(truth=True).reset(KEY, bare)
  state, _ = sokoban.Sokoban().reset(KEY, bare)
  assert state.distance is None


def test_all_moves_of_a_tiny_room_agree_with_the_plain_rules():
  """Every placement of two boxes and a player in 3 x 3, every move."""
  cells = [(r, c) for r in (1, 2, 3) for c in (1, 2, 3)]
  env = sokoban.Sokoban(5, 5, 2)
  walls = np.ones((5, 5), bool)
  walls[1:4, 1:4] = False
  targets = np.zeros((5, 5), bool)
  targets[1, 1] = targets[2, 2] = True
  places = [
    (*pair, player)
    for pair in itertools.combinations(cells, 2)
    for player in cells
    if player not in pair
  ]
  tasks = []
  for first, second, (row, column) in places:
    boxes = np.zeros((5, 5), bool)
    boxes[first] = boxes[second] = True
    level = sokoban_solver.SolverLevel(walls, targets, boxes, row * 5 + column)
    solved = base.SolvedTask(sokoban_levels.level_task(level, None), [], '')
    tasks += [solved] * 5
  actions = jnp.tile(jnp.arange(-1, 4, dtype=jnp.int32), len(places))
  states, first = jax.vmap(env.reset, (None, 0))(KEY, jit_tasks.stack(tasks))
  step = jax.jit(jax.vmap(env.step, (0, 0, None)))
  _, obs, rewards, _ = jax.device_get(step(states, actions, KEY))
  for i, action in enumerate(np.asarray(actions)):
    cells = cells_of(base.render_text(env, first[i]))
    want, reward = plain_step(cells, int(action))
    assert cells_of(base.render_text(env, obs[i])) == want
    np.testing.assert_allclose(rewards[i], reward, atol=1e-5)
