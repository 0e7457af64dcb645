"""Runs against past selves: who the rival is, kills, staleness, a mesh."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.configs import base, spiral
from agentrl.learner import algorithm, update
from agentrl.memory import league
from agentrl.rollout import stale
from agentrl.run import algorithm as run_algorithm
from agentrl.run import build, runner, weights
from agentrl.run import workdir as workdir_lib
from agentrl.run.play import collect, strategies
from agentrl.task.base import make_attempts
from tests.integration import cut, same

TINY = dict(width=16, layers=1, heads=2, kv_heads=2, head_dim=8, mlp=32)


def config(folder, **hp):
  c = spiral.get_config()
  base.role(c, 'rival', kind='frozen')
  c.rollout.seats, c.rollout.swap_seats = ('policy', 'rival'), 1
  c.memory = (*c.memory, 'league')
  base.hp(c, 'memory', 'league', **(dict(size=3, every=1) | hp))
  c.data = str(folder / 'data')
  c.model.update(TINY)
  c.rollout.update(dict(batch=16, slots=16))
  c.micro_batch, c.env.train, c.env.test = 16, 12, 6
  return c


@pytest.mark.nightly
def test_the_rival_of_the_next_step_is_a_past_self(tmp_path):
  """And it is what plays: a rollout reads it, and only the policy learns."""
  c = config(tmp_path, rule='latest')
  s = build.experiment(c)
  assert strategies.reader(s) is not None  # of the policy alone
  # A rollout reads the rival as something that changes, at any staleness.
  reads = run_algorithm.reads(s.config, s.algorithm)
  assert set(reads.roles) == {'policy', 'rival'}
  state = update.init(s.algorithm, jax.random.key(0))
  state = collect.init_memory(s, state)
  state = stale.begin(state, reads, 1)
  attempts = make_attempts(np.arange(16) // 2 % 6, 2, s.plan.turns, 1.0)

  @jax.jit
  def step(state):
    params = algorithm.played_params(s.algorithm, state.params)
    batch = collect.rollout_and_score(
      s, params, attempts, jax.random.key(1), jnp.stack([state.step, 0])
    )
    return update.update(s.algorithm, state, batch)[0]

  seen = []
  for i in range(3):
    state = step(state)
    seen.append(jax.device_get(state.params))
    pairs = same.pairs(seen[-1]['policy'], seen[-1]['rival'])
    for a, b in pairs:  # the newest past self is the policy itself
      np.testing.assert_array_equal(a, b)
    if i:
      old = jax.device_get(state.past[0].params['rival'])
      for a, b in same.pairs(old, seen[-2]['rival']):
        np.testing.assert_array_equal(a, b)
  moved = same.pairs(seen[0]['rival'], seen[-1]['rival'])
  assert any(np.any(a != b) for a, b in moved)
  assert int(jnp.sum(state.memory['league'].games)) > 0


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize('staleness', [0, 1])
def test_a_killed_run_meets_the_same_rivals(tmp_path, staleness):
  def run(name):
    c = config(tmp_path)
    c.steps, c.sft.steps, c.eval.episodes = 4, 2, 16
    c.checkpoint.every = 1
    c.staleness.bound = staleness
    c.staleness.anchor = 'behaviour' if staleness else c.staleness.anchor
    return runner.run(c, str(tmp_path / name))

  text = run('whole')
  assert 'exploitability' in text
  assert 'rating' in text
  with cut.after_row(4):
    run('killed')
  run('killed')
  one, other = (str(tmp_path / x) for x in ('whole', 'killed'))
  same.assert_same_run(one, other, steps=6)
  s = build.experiment(workdir_lib.read_config(one))
  _, state = weights.load(s.config, s.shape, one)
  of = state.memory['league']
  at = int(of.rival[6 % league.HISTORY])
  for past, now in same.pairs(of.params, state.params['rival']):
    np.testing.assert_array_equal(past[at], now)
  assert sorted(np.asarray(of.written)) == [4, 5, 6]
