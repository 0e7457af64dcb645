"""A planner's line in observations, and the share of moves that are best."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.configs import grpo
from agentrl.env.jit import base, frozen_lake, planned, sokoban_levels
from agentrl.run.check import fields
from agentrl.run.play import jit_env
from tests import errors
from tests.env.jit import tasks as jit_tasks


def sources():
  lakes = frozen_lake.Lakes(3, 4, intended=1.0)
  levels = sokoban_levels.Generated(height=5, width=5, min_moves=2, max_moves=5)
  return {
    'frozen_lake': (lakes, frozen_lake.env_for(lakes)),
    'sokoban': (levels, sokoban_levels.env_for(levels)),
  }


def line_of(env, obs) -> str:
  return base.render_text(env, np.asarray(obs)).splitlines()[-1]


@pytest.mark.parametrize('name', ['frozen_lake', 'sokoban'])
def test_who_follows_it_needs_no_more_moves_than_the_solver(name):
  source, env = sources()[name]
  env = planned.Planned(env)
  reset, step = jax.jit(env.reset), jax.jit(env.step)
  info = jax.jit(env.info)
  for solved in source.tasks('train', 4, 0):
    state, obs = reset(jax.random.key(0), solved.task)
    for count in range(1, 20):
      line = line_of(env, obs)
      action = jnp.int32(env.actions.index(line.removeprefix('next: ')))
      after, obs, _, done = step(state, action, jax.random.key(0))
      columns = info(state, action, after)
      assert columns['optimal'] == 1
      assert columns['progress'] > 0
      state = after
      if done:
        assert count == len(solved.actions)
        break
    assert env.score(state) == 1
    assert obs.shape == (env.obs_len,)


def lake(text):
  env, task = jit_tasks.lake(text)
  env = planned.Planned(env)
  return env, *jax.jit(env.reset)(jax.random.key(0), task)


def optimal(env, state) -> list[float]:
  """Of what was not understood, then of each action."""

  @jax.jit
  def of(action):
    after, *_ = env.step(state, action, jax.random.key(0))
    return env.info(state, action, after)['optimal']

  return [float(of(jnp.int32(action))) for action in range(-1, 4)]


def test_where_nothing_helps_it_says_so():
  env, state, obs = lake('SHG')
  assert line_of(env, obs) == 'next: ?'
  assert optimal(env, state) == [0, 0, 0, 0, 0]


def test_every_best_move_is_optimal_and_no_other():
  """From the corner both ways round are as long."""
  env, state, obs = lake('S_ _G')
  assert line_of(env, obs) == 'next: down'
  assert optimal(env, state) == [0, 0, 1, 1, 0]  # left, down, right, up


def test_a_silent_one_has_a_line_as_long():
  for name, (_, env) in sources().items():
    plan, silent = planned.Planned(env), planned.Planned(env, advises=False)
    assert plan.obs_len == silent.obs_len == env.obs_len + 1
    assert plan.pieces == silent.pieces
    task = next(iter(sources()[name][0].tasks('train', 1, 0))).task
    _, obs = silent.reset(jax.random.key(0), task)
    assert line_of(silent, obs) == 'next: ?'
    assert 'next' in silent.legend


@pytest.mark.parametrize(
  ('name', 'changes', 'sentence'),
  [
    ('sokoban', dict(boxes=2), 'oracle plan env.boxes 2'),
    ('frozen_lake', dict(slip=True), 'oracle plan env.slip'),
  ],
)
def test_a_planner_that_knows_too_little(name, changes, sentence):
  c = grpo.get_config(f'env={name}')
  c.env.oracle = 'plan'
  _, env = jit_env.environment(c)
  assert isinstance(env, planned.Planned)
  assert env.advises
  c.env.oracle = 'silent'
  assert not jit_env.environment(c)[1].advises
  c.env.oracle = 'plan'
  c.env.update(changes)
  with errors.raises(ValueError, sentence):
    jit_env.environment(fields.read(c))
