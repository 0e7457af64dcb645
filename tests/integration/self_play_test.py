"""Self-play as configs wire it: credit by seat, state that is kept, metrics."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.configs import (
  coopetition_gym,
  cpr_norms,
  dr_mas,
  mars,
  spiral,
  spiral_magnet,
)
from agentrl.learner import update
from agentrl.run import build, runner
from agentrl.run.play import collect, demonstrations
from agentrl.task.base import make_attempts

TINY = dict(width=16, layers=1, heads=2, kv_heads=2, head_dim=8, mlp=32)


def small(method, folder, arg=''):
  c = method.get_config(arg)
  c.data = str(folder / 'data')
  c.model.update(TINY)
  c.rollout.update(dict(batch=16, slots=16))
  c.micro_batch, c.env.train, c.env.test = 16, 12, 6
  return c


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  return tmp_path_factory.mktemp('self_play')


@pytest.fixture(scope='module')
def matches(folder):
  """An experiment of self-play, and a batch of uniformly played matches."""
  s = build.experiment(small(spiral, folder))
  attempts = make_attempts(np.arange(16) // 2 % 6, 2, s.plan.turns, 1.0)
  said = jax.tree.map(jnp.asarray, demonstrations.moves(s))
  batch = jax.jit(
    lambda key: collect.score(
      s.algorithm.spec,
      collect.demonstrate(s, attempts, *said, key),
    )
  )(jax.random.key(0))
  counted = batch.turns.valid
  return s, batch.replace(turns=batch.turns.replace(scored=counted))


def credit_of(s, batch, memory):
  signals = {}
  for name, m in s.algorithm.memory.items():
    batch, fields = m.read(memory[name], batch, 0, jax.random.key(0))
    signals |= fields
  return update.compute_advantage(s.algorithm, batch, signals)[0].turn


def test_spiral_compares_a_return_with_those_of_its_seat(matches):
  s, batch = matches
  state = s.algorithm.memory['role_baseline'].init(batch, 12)
  state = state.replace(mean=jnp.array([-0.5, 0.25]))
  got = credit_of(s, batch, {'role_baseline': state})
  mean = [-0.5, 0.25]
  total = np.asarray(batch.turns.reward).sum(axis=1)
  assert np.abs(total).max() == 2
  for b, valid in enumerate(np.asarray(batch.turns.valid)):
    want = np.where(valid, total[b] - mean[b % 2], 0)
    np.testing.assert_allclose(got[b], want, atol=1e-6)
    if valid.any():
      mean[b % 2] = 0.95 * mean[b % 2] + 0.05 * total[b]
  after = s.algorithm.memory['role_baseline'].write(state, batch, None, 0)
  np.testing.assert_allclose(after.mean, mean, atol=1e-6)


@pytest.mark.parametrize('method', [mars, dr_mas, coopetition_gym, cpr_norms])
def test_statistics_are_those_of_a_seat(matches, folder, method):
  """What one seat earns does not move what the other is credited with."""
  _, batch = matches
  c = small(method, folder, 'env=kuhn_poker')
  c.rollout.group_size = 8
  s = build.experiment(c)
  group = jnp.arange(16, dtype=jnp.int32) // 8
  batch = batch.replace(ids=batch.ids | {'group': group})
  seat = np.asarray(batch.turns.agent) == 0
  shifted = batch.turns.reward + jnp.where(jnp.asarray(seat), 3.0, 0.0)
  turns = batch.turns.replace(reward=shifted * batch.turns.valid)
  if method is not mars:  # of equal length: the shift is that of the return
    one = jnp.arange(2)[None] == 0
    valid = batch.turns.valid & one
    reward = jnp.sum(batch.turns.reward, axis=1, keepdims=True) * one
    turns = batch.turns.replace(valid=valid, scored=valid, reward=reward)
    batch = batch.replace(turns=turns)
    more = jnp.where(jnp.asarray(seat), 3.0, 0.0) * valid
    turns = turns.replace(reward=reward + more)
  moved = batch.replace(turns=turns)
  before, after = (
    np.asarray(update.compute_advantage(s.algorithm, x, {})[0].turn)
    for x in (batch, moved)
  )
  assert np.abs(before).max() > 0.1
  if method is not mars:
    np.testing.assert_allclose(after, before, atol=1e-4)
  alone = [
    np.asarray(
      update.compute_advantage(s.algorithm._replace(post=()), x, {})[0].turn
    )
    for x in (batch, moved)
  ]
  np.testing.assert_allclose(alone[0][~seat], alone[1][~seat], atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize('magnet', [True, False])
def test_the_magnet_draws_where_no_return_does(matches, folder, magnet):
  c = small(spiral_magnet, folder)
  if not magnet:
    c.schedule.coef.kl_k2 = ('linear', 0.0, 0.0, c.steps)
  s = build.experiment(c)
  state = update.init(s.algorithm, jax.random.key(0))
  state = collect.init_memory(s, state)
  policy = state.params['policy']
  apart = jax.tree.map(lambda x: x + 0.05 * jnp.cos(10 * x), policy)
  state = state.replace(params=state.params | {'reference': apart})
  batch = matches[1]
  turns = batch.turns.replace(reward=jnp.zeros_like(batch.turns.reward))
  f = jax.jit(lambda *x: update.update(s.algorithm, *x)[0].params['policy'])
  after = f(state, batch.replace(turns=turns))
  pairs = zip(jax.tree.leaves(policy), jax.tree.leaves(after), strict=True)
  assert any(np.any(a != b) for a, b in pairs) == magnet


@pytest.mark.slow
@pytest.mark.nightly
def test_a_run_goes_on_with_its_averages_and_says_how_exploitable_it_is(
  folder,
):
  def run(name, stop):
    c = small(spiral, folder)
    c.steps, c.sft.steps, c.eval.episodes = stop, 2, 16
    c.checkpoint.every, c.eval.every = 1, 1
    runner.run(c, str(folder / name))
    rows = (folder / name / 'metrics.jsonl').read_text().splitlines()
    return [json.loads(x) for x in rows]

  rows = run('whole', 4)
  scores = [x['eval/exploitability'] for x in rows if x['phase'] == 'eval']
  assert len(scores) == 5
  assert all(0 < x < 1.5 for x in scores)
  means = [x['role_baseline/0'] for x in rows if 'role_baseline/0' in x]
  assert len(means) == 4
  assert len(set(means)) == 4
