"""Tokens survive: sampled, logged, stored, read, and laid out in rows again."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.configs import grpo
from agentrl.dataset import trajectory, trajectory_store
from agentrl.learner import algorithm, update
from agentrl.log import encode, sample, trajectories
from agentrl.model import policy
from agentrl.rollout import record as record_lib
from agentrl.rollout import stored
from agentrl.run import build, collect, sampler
from agentrl.task.fixed import attempts as make_attempts
from tests.run import small_configs

EXACT = ('tokens', 'seg', 'traj', 'turn', 'span', 'sampled', 'weight', 'logp')


def sampled(c):
  """The experiment, its parameters, and a batch of eight attempts."""
  s = build.experiment(c)
  state = update.init(s.algorithm, jax.random.key(0))
  params = algorithm.full_params(s.algorithm.context, state.params)
  attempts = make_attempts(np.arange(4) // 2, 2, s.plan.turns, 1.0)
  with sampler.open_sampler(s) as playing:
    playing.update_service_params(state.params)
    batch = playing.collect(params, attempts, jax.random.key(1), 7)
  return s, params, jax.device_get(batch)


def logged(s, batch):
  """The lines of a log, as they are read from a file."""
  n = len(batch.outcome)
  kept = sample.sample(batch, {}, None, jax.random.key(0), groups=-1, size=n)
  lines = encode.trajectories(
    jax.device_get(kept), s.tokenizer, step=9, phase='rl'
  )
  return [json.loads(trajectories.encode(line)) for line in lines]


def laid_out(s, again):
  """Stored trajectories -> Record -> Layout -> Batch, and its reward."""
  full = s.plan.history == 'full'
  record = stored.to_record(
    again,
    turns=s.plan.turns,
    context=s.capacity.context,
    message=s.plan.message,
    row=s.capacity.row if full else None,
  )
  record = collect.unjudged(s, record)
  layout = collect.layout(s, record)
  batch = record_lib.batch(record, layout, stored.attempts(again), 0)
  return collect.score(s.algorithm.spec, batch)


def gradient(s, params, rows):
  apply = policy.module(s.shape).apply

  def loss(params):
    logp = apply(params, jax.tree.map(jnp.asarray, rows), ('logp',)).logp
    ratio = jnp.exp(logp - rows.logp)
    return -jnp.sum(ratio * rows.weight) / jnp.sum(rows.weight)

  return jax.jit(jax.grad(loss))(params)


def config(tmp_path, world, history):
  if world == 'countdown':
    c = small_configs.countdown(rollout__history=history)
  else:
    c = grpo.get_config(f'tiny,env={world}')
    c.env.update(dict(train=4, test=4))
    c.rollout.history = history
  c.data = str(tmp_path / 'data')
  c.rollout.update(dict(batch=8, group_size=2, max_turns=4))
  c.micro_batch, c.sft.batch = 8, 8
  c.model.update(
    dict(width=16, layers=1, heads=2, kv_heads=2, head_dim=8, mlp=32)
  )
  return c


@pytest.mark.parametrize('history', ['turn', 'full'])
@pytest.mark.parametrize('world', ['sokoban', 'countdown'])
def test_tokens_survive_the_log_and_the_store(tmp_path, world, history):
  s, params, batch = sampled(config(tmp_path, world, history))
  lines = logged(s, batch)
  assert len(lines) == len(batch.outcome)
  made = map(trajectory.from_log, lines)
  trajectory_store.build(made, tmp_path, 'run')
  again = list(trajectory_store.open(tmp_path, 'run'))
  assert [x.id for x in again] == [trajectory.from_log(x).id for x in lines]
  assert {x.source for x in again} == {'policy'}
  back = jax.device_get(laid_out(s, again))
  for name in EXACT:
    was, now = getattr(batch.rows, name), getattr(back.rows, name)
    assert was.dtype == now.dtype, name
    np.testing.assert_array_equal(was, now, err_msg=name)
  wrote = np.where(batch.rows.sampled, batch.rows.version, 0)
  np.testing.assert_array_equal(wrote, back.rows.version)
  assert batch.rows.sampled.any()
  jax.tree.map(
    np.testing.assert_array_equal,
    batch.turns.replace(node=0, agent=0),
    back.turns.replace(node=0, agent=0),
  )
  for name in ('outcome', 'status'):
    np.testing.assert_array_equal(getattr(batch, name), getattr(back, name))
  for name in ('task', 'group'):
    np.testing.assert_array_equal(batch.ids[name], back.ids[name])
  was, now = (gradient(s, params, x.rows) for x in (batch, back))
  jax.tree.map(np.testing.assert_array_equal, was, now)
  assert any(np.any(x) for x in jax.tree.leaves(was))
