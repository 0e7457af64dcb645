"""Tokens survive: sampled, logged, stored, read, and laid out in rows again."""

import json
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.configs import grpo
from agentrl.dataset import edits, trajectory, trajectory_store
from agentrl.learner import algorithm, update
from agentrl.log import encode, sample, trajectories
from agentrl.model import policy
from agentrl.rollout import record as record_lib
from agentrl.rollout import stored
from agentrl.run import build
from agentrl.run.play import collect, sampler
from agentrl.task.base import make_attempts
from agentrl.text.tokenizer import Embedded
from agentrl.types import Status
from tests import errors
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
    batch, _ = playing.collect(params, attempts, jax.random.key(1), 7)
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


@pytest.mark.parametrize(
  ('world', 'history'),
  [
    ('countdown', 'full'),
    pytest.param('countdown', 'turn', marks=pytest.mark.nightly),
    pytest.param('sokoban', 'full', marks=pytest.mark.nightly),
    pytest.param('sokoban', 'turn', marks=pytest.mark.nightly),
  ],
)
def test_tokens_survive_the_log_and_the_store(tmp_path, world, history):
  s, params, batch = sampled(config(tmp_path, world, history))
  lines = logged(s, batch)
  assert len(lines) == len(batch.outcome)
  made = map(trajectory.from_log, lines)
  trajectory_store.build(made, tmp_path, 'run')
  again = list(trajectory_store.open_store(tmp_path, 'run'))
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


def stored_turns(k, read=3, wrote=2):
  turns = [
    trajectory.make_turn(
      np.arange(read) + 10 * i,
      np.arange(wrote) + 10 * i + 5,
      logp=-np.arange(1.0, wrote + 1),
      weight=[0.5] + [1.0] * (wrote - 1),
      terms={'env': 0.25 * i, 'price': 2.0} if i else {},
      reward=3.0,
    )
    for i in range(k)
  ]
  made = trajectory.StoredTrajectory(
    tuple(turns), 4, 1, 1.0, Status.SOLVED, 'policy', 5, 'full', False
  )
  return made


SIZES = {'turns': 3, 'context': 4, 'message': 3, 'row': 20}


def test_weights_of_contexts_and_messages_stand_in_rows():
  x = stored_turns(2)
  x = x._replace(turns=(x.turns[0], *edits.only_observations(x).turns[1:]))
  record = stored.to_record([x, stored_turns(0)], **SIZES)
  rows = record_lib.rows(record, record_lib.full_history(record, 20), 0)
  weight = [0, 0, 0, 0.5, 1, 1, 1, 1, 0, 0]
  assert rows.weight[0].tolist() == weight + [0] * 10
  assert not rows.weight[1].any()
  assert rows.tokens[0, :10].tolist() == [0, 1, 2, 5, 6, 10, 11, 12, 15, 16]


def test_terms_become_columns_and_the_environments_reward():
  record = stored.to_record([stored_turns(2)], **SIZES)
  assert record.reward.tolist() == [[3.0, 0.25, 0.0]]
  assert {k: x.tolist() for k, x in record.columns.items()} == {
    'price': [[0.0, 2.0, 0.0]]
  }
  given = stored.attempts([stored_turns(2), stored_turns(0)])
  assert given.task.tolist() == [4, 4]
  assert given.limit.tolist() == [2, 1]
  text = stored_turns(1)._replace(task='go')
  assert stored.attempts([text]).task.tolist() == [-1]


@pytest.mark.parametrize(
  ('k', 'read', 'wrote', 'match'),
  [
    (4, 1, 1, '4 3'),
    (1, 5, 1, '5 4'),
    (1, 1, 4, '4 3'),
    (3, 4, 3, '21 20'),
  ],
)
def test_what_is_too_large_is_refused(k, read, wrote, match):
  fits = stored_turns(1)
  with errors.raises(ValueError, f'1 {match}'):
    stored.to_record([fits, stored_turns(k, read, wrote)], **SIZES)


def test_contexts_are_of_one_kind_of_rows():
  x = stored_turns(2)
  with errors.raises(ValueError, 'full turn'):
    stored.to_record([x], **SIZES | {'row': None})
  x = x._replace(history='turn')
  with errors.raises(ValueError, 'turn full'):
    stored.to_record([x], **SIZES)
  with errors.raises(ValueError, 'history tree full'):
    stored.to_record([x._replace(history='tree')], **SIZES)
  stored.to_record([x._replace(history='')], **SIZES)
  stored.to_record([x._replace(turns=x.turns[:1])], **SIZES)


@pytest.mark.slow
def test_a_log_has_weights_spans_and_versions_of_single_tokens():
  """Where they are not the usual ones: lines stay short."""
  x = stored_turns(2)
  last = x.turns[1]._replace(
    context_span=np.array([9, 0, 9], np.int8),
    version=np.array([6, 7], np.int32),
    weight=np.zeros(2, np.float32),
  )
  first = x.turns[0]._replace(
    context_span=np.full(3, 9, np.int8), weight=np.ones(2, np.float32)
  )
  x = x._replace(turns=(first, last), group=0)
  record = jax.tree.map(jnp.asarray, stored.to_record([x], **SIZES))
  layout = record_lib.full_history(record, 20)
  batch = record_lib.batch(record, layout, stored.attempts([x]), 0)
  tokens = types.SimpleNamespace(tokenizer=Embedded())
  (line,) = logged(tokens, jax.device_get(batch))
  one, two = line['turns']
  assert one['read']['span'] == 9
  assert not {'weight', 'version'} & set(one['said'])
  assert two['read']['span'] == [9, 0, 9]
  assert (two['said']['weight'], two['said']['version']) == (0.0, [6, 7])
  again = trajectory.from_log(line)
  for a, b in zip(again.turns, x.turns, strict=True):
    for name in ('context_span', 'version', 'weight', 'logp', 'message'):
      np.testing.assert_array_equal(a._asdict()[name], b._asdict()[name])
