"""FrozenLake: rules, slipping, values and maps."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.env.jit import frozen_lake
from agentrl.env.jit.frozen_lake import FrozenLake, Lakes
from tests import errors
from tests.env.jit import tasks as jit_tasks

LEFT, DOWN, RIGHT, UP = range(4)
KEY = jax.random.key(0)
OFFSETS = ((0, -1), (1, 0), (0, 1), (-1, 0))


def lake(text, *args, **fields):
  """-> env, state."""
  env, task = jit_tasks.lake(text, *args, **fields)
  return env, env.reset(KEY, task)[0]


def plain_next(shape, cell, action):
  """The cell that an action leads to, the border holding."""
  row, column = divmod(cell, shape[1])
  down, right = OFFSETS[action]
  row = min(max(row + down, 0), shape[0] - 1)
  column = min(max(column + right, 0), shape[1] - 1)
  return row * shape[1] + column


def test_what_is_shown_and_paid_at_the_goal_and_in_a_hole():
  env, start = lake('S_ HG', turn_reward=-0.5)
  for actions, texts, rewards, score in (
    ([RIGHT, DOWN, LEFT], ('SP\nHG\n', *['S_\nH*\n'] * 2), (-0.5, 0.5, 0), 1),
    ([DOWN, RIGHT], ('S_\nXG\n', 'S_\nXG\n'), (-0.5, 0), 0),
  ):
    state, *seen, dones, _ = jit_tasks.walk(env, start, actions)
    assert seen == [texts, rewards]
    assert dones[-2:] == (True, True)
    assert env.score(state) == score


@pytest.mark.parametrize(('action', 'intended'), [(LEFT, 1 / 3), (UP, 0.7)])
def test_slips_are_as_likely_as_the_rules_say(action, intended):
  env, state = lake('___ _S_ __G', intended)
  state = state.replace(player=jnp.int32(4))
  count = 4000
  keys = jax.random.split(jax.random.key(action), count)
  step = jax.jit(jax.vmap(env.step, (None, None, 0)))
  after = step(state, jnp.int32(action), keys)[0].player
  share = np.bincount(after, minlength=9) / count
  want = np.zeros(9)
  want[plain_next((3, 3), 4, action)] = intended
  for side in (action - 1, action + 1):
    want[plain_next((3, 3), 4, side % 4)] += (1 - intended) / 2
  # 5 standard deviations of a share at 4,000 draws are below 0.04.
  np.testing.assert_allclose(share, want, atol=0.04)
  np.testing.assert_array_equal(share[want == 0], 0)


def test_without_slipping_the_rules_match_a_plain_walk():
  source = Lakes(5, 3, intended=1.0)
  env = frozen_lake.env_for(source)
  solved = list(source.tasks('train', 50, 0))
  actions = np.random.default_rng(0).integers(-1, 4, (50, 30))

  @jax.jit
  def run(tasks, actions):
    state, _ = jax.vmap(env.reset, (None, 0))(KEY, tasks)

    def turn(state, action):
      keys = jax.random.split(KEY, 50)
      state, _, reward, done = jax.vmap(env.step)(state, action, keys)
      return state, (state.player, reward, done)

    return jax.lax.scan(turn, state, actions.T)[1]

  players, rewards, dones = jax.device_get(
    run(jit_tasks.stack(solved), actions)
  )
  for b in range(50):
    task, over = solved[b].task, False
    cell = int(task['start'])
    for k in range(30):
      reward = 0.0
      if not over:
        action = int(actions[b, k])
        reward = -0.1 if action < 0 else 0.0
        cell = cell if action < 0 else plain_next((5, 3), cell, action)
        reward += cell == task['goal']
        over = bool(task['holes'][cell] or cell == task['goal'])
      assert players[k, b] == cell
      assert rewards[k, b] == pytest.approx(reward)
      assert dones[k, b] == over


def policy_value(holes, goal, intended, policy):
  """Value of a policy by solving its linear equations."""
  shape, cells = holes.shape, holes.size
  matrix, right = np.eye(cells), np.zeros(cells)
  right[goal] = 1.0
  for cell in range(cells):
    if holes.flat[cell] or cell == goal:
      continue
    for turn, share in ((0, intended), (1, None), (-1, None)):
      share = (1 - intended) / 2 if share is None else share
      after = plain_next(shape, cell, (policy[cell] + turn) % 4)
      matrix[cell, after] -= 0.9 * share
  return np.linalg.solve(matrix, right)


@pytest.mark.parametrize('intended', [1 / 3, 0.8, 1.0])
def test_value_against_policy_iteration(intended):
  """Every policy that differs in one cell from the best is no better."""
  holes = np.array([[0, 0, 1], [0, 0, 0], [1, 0, 0]], bool)
  goal = 8
  policy = np.zeros(9, int)
  while True:
    value = policy_value(holes, goal, intended, policy)
    better = policy.copy()
    for cell in range(9):
      for action in range(4):
        trial = policy.copy()
        trial[cell] = action
        gain = policy_value(holes, goal, intended, trial) - value
        if gain[cell] > 1e-9:
          better[cell] = action
    if (better == policy).all():
      break
    policy = better
  got = frozen_lake.optimal_value(holes, goal, intended)
  np.testing.assert_allclose(got, value, atol=1e-6)
  assert got.dtype == np.float32


def test_progress_is_the_change_of_value():
  env, state = lake('S_ HG')
  for action, change in ((RIGHT, 0.9 - 0.81), (DOWN, -0.81)):
    *_, info = jit_tasks.walk(env, state, [action])
    assert info == ((pytest.approx(change),),)


def test_demonstrations_reach_the_goal():
  source = Lakes(intended=1.0)
  env = frozen_lake.env_for(source)
  step = jax.jit(env.step)
  for solved in source.tasks('test', 20, 0):
    state, _ = env.reset(KEY, solved.task)
    value = solved.task['value'][solved.task['start']]
    assert value == pytest.approx(0.9 ** len(solved.actions), rel=1e-6)
    for action in solved.actions:
      assert env.score(state) == 0
      state, _, _, done = step(state, jnp.int32(action), KEY)
    assert done
    assert env.score(state) == 1


def test_splits_are_disjoint_under_symmetry_and_repeatable():
  source = Lakes()

  def boards(split, count, seed):
    for solved in source.tasks(split, count, seed):
      board = solved.task['holes'].astype(int)
      board[solved.task['start']], board[solved.task['goal']] = 2, 3
      yield board.reshape(4, 4)

  train = {
    np.rot90(flip, k).tobytes()
    for board in boards('train', 100, 0)
    for flip in (board, board.T)
    for k in range(4)
  }
  test = [board.tobytes() for board in boards('test', 50, 1)]
  assert not train & set(test)
  assert len(set(test)) == 50
  assert test == [board.tobytes() for board in boards('test', 50, 1)]
  assert test != [board.tobytes() for board in boards('test', 50, 2)]


def test_share_of_ice():
  holes = [s.task['holes'] for s in Lakes(8, 8).tasks('train', 60, 0)]
  # Of 62 cells that may be holes a fifth is; solvable maps have rather fewer.
  assert 0.15 < np.mean(holes) < 0.21
  whole = [s.task['holes'] for s in Lakes(frozen=1.0).tasks('train', 5, 0)]
  assert not np.any(whole)


def test_no_way_to_the_goal():
  holes = np.array([[0, 1, 0]], bool)
  assert frozen_lake.shortest_way(holes, 0, 2) is None
  assert frozen_lake.shortest_way(~holes, 1, 1) == []


def test_names_and_settings():
  assert dataclasses.replace(Lakes(), intended=1.0).name() != Lakes().name()
  assert Lakes().name().startswith('frozen_lake-4x4-')
  env = frozen_lake.env_for(Lakes(3, 5, intended=0.9), goal_reward=2.0)
  assert env == FrozenLake(3, 5, 0.9, goal_reward=2.0)


@pytest.mark.parametrize(
  ('make', 'message'),
  [
    (lambda: FrozenLake(1, 1), '1'),
    (lambda: FrozenLake(intended=1.5), 'intended 1.5'),
    (lambda: Lakes(frozen=0.0), 'frozen 0.0 0'),
    (
      lambda: FrozenLake().reset(KEY, {'holes': np.zeros(9, bool)}),
      'holes 9 4',
    ),
  ],
)
def test_wrong_settings(make, message):
  with errors.raises(ValueError, message):
    make()
