"""Methods of several policies, each by what it is named for."""

import functools
import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.learner import sizes
from agentrl.learner import update as update_lib
from agentrl.model import microbatch
from agentrl.rollout import stale
from agentrl.run import algorithm, build, placement
from agentrl.run.play import jit_sampler
from agentrl.run.stage import stages

# Roles beside the policy: does it learn.
PLAYED = {
  'astraflow': {'verifier': True},
  'cory': {'twin': True, 'value': True, 'reference': False},
  'dr_mas_models': {'verifier': True},
}


def config(method, folder, sizes=(1, 1), **rollout):
  c = importlib.import_module(f'agentrl.configs.{method}').get_config()
  c.data = str(folder)
  c.model.update(
    dict(width=16, layers=1, heads=4, kv_heads=4, head_dim=4, mlp=16)
  )
  c.rollout.update(dict(batch=32, group_size=16, slots=32) | rollout)
  c.micro_batch = c.sft.batch = 32
  c.env.update(dict(train=16, test=4, illegal='random'))
  c.steps = 8
  c.mesh.fsdp, c.mesh.tensor = sizes
  return c


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  return tmp_path_factory.mktemp('data')


@functools.cache
def collected(method, folder, step=0, **rollout):
  """An experiment, its stage, a state of players apart, and their batch."""
  s = build.experiment(config(method, folder, **rollout))
  stage = stages.rl_stage(s, 0, 8, jit_sampler.JitSampler(s))
  state = stage.begin(update_lib.init(s.algorithm, jax.random.key(0)))
  other = s.algorithm.players[1]
  apart = jax.tree.map(lambda x: 1.5 * x, state.params[other])
  state = state.replace(
    params=state.params | {other: apart}, step=jnp.int32(step)
  )
  batch, _ = stage.collect(state, stage.task(state, step), step)
  return s, stage, state, batch


def logp_of(s, params, batch):
  apply = s.algorithm.context.modules['policy'].apply
  return microbatch.forward(apply, params, batch.rows, ('logp',), 32).logp


def credit_of(s, batch, signals=None):
  return update_lib.compute_advantage(s.algorithm, batch, signals or {})[0]


@pytest.mark.parametrize('step', [pytest.param(4, marks=pytest.mark.slow), 5])
def test_cory_swaps_seats_with_parameters_and_optimizers(folder, step):
  """Where the exchange is taken out, the twin observes at step 5 too."""
  s, _, state, batch = collected('cory', folder, step)
  pioneer = np.asarray(batch.ids['seat']) == 0
  writer = s.algorithm.players.index('policy' if step < 5 else 'twin')
  np.testing.assert_array_equal(
    batch.ids['role'], np.where(pioneer, writer, 1 - writer)
  )
  # Who wrote is not only said: the tokens have its log-probs.
  rows = batch.rows
  first = pioneer[np.maximum(rows.traj, 0)] & np.asarray(rows.sampled)
  own, other = (
    logp_of(s, state.params[s.algorithm.players[i]], batch)[first]
    for i in (writer, 1 - writer)
  )
  np.testing.assert_allclose(own, rows.logp[first], atol=1e-5)
  assert np.abs(other - rows.logp[first]).max() > 1e-3


def test_cory_pays_both_for_both_and_shows_the_first_answer(folder):
  s, _, _, batch = collected('cory', folder, 5)
  total = np.asarray(batch.turns.reward).sum(axis=1)
  right = np.asarray(batch.outcome)
  np.testing.assert_allclose(total[::2], right[::2] + right[1::2])
  np.testing.assert_allclose(total[::2], total[1::2])
  assert np.any(right[::2] != right[1::2])
  asked, rows = {}, batch.rows
  signs = {s.tokenizer.encode(x)[0]: x for x in '+-*'}
  for ids, of, sampled in zip(
    *map(np.asarray, (rows.tokens, rows.traj, rows.sampled)), strict=True
  ):
    if of[0] >= 0:
      asked[int(of[0])] = s.tokenizer.decode(ids[(of >= 0) & ~sampled].tolist())
  assert len(asked) == 32
  for pioneer in range(0, 32, 2):
    question = asked[pioneer].rstrip('\n')
    told = asked[pioneer + 1].rstrip('\n')
    assert told[:-1] == question
    assert told[-1] in signs.values()


@pytest.mark.slow
def test_dr_mas_compares_an_agent_with_itself(folder):
  """Without the column `agent` the verifier's shift would move the solver."""
  s, _, _, batch = collected('dr_mas_models', folder)
  agent, valid = np.asarray(batch.turns.agent), np.asarray(batch.turns.valid)
  calls = [valid[agent == i].sum() for i in (0, 1)]
  assert calls[0] > calls[1] == 16  # the solver is called more often
  shift = jnp.where(batch.turns.agent == 1, 3.0, 0.0)
  one = jnp.arange(valid.shape[1])[None] == 0
  turns = batch.turns.replace(
    reward=batch.turns.reward + shift * one * batch.turns.valid
  )
  before = credit_of(s, batch).turn
  after = credit_of(s, batch.replace(turns=turns)).turn
  assert np.abs(before).max() > 0.1
  np.testing.assert_allclose(after, before, atol=1e-4)
  group = np.asarray(batch.ids['group'])
  total = np.asarray(batch.turns.reward).sum(axis=1)
  for g in np.unique(group):
    for i in (0, 1):
      own = valid & (agent == i) & (group == g)[:, None]
      r = np.broadcast_to(total[:, None], own.shape)[own]
      want = (r - r.mean()) / (r.std(ddof=1) + 1e-6)
      np.testing.assert_allclose(np.asarray(before)[own], want, atol=1e-3)


@pytest.mark.slow
def test_astraflow_masks_what_moved_furthest_for_each_policy(folder):
  """The verifier's larger drift masks none of the solver's tokens."""
  s, _, _, batch = collected('astraflow', folder)
  role = np.asarray(batch.ids['role'])[np.maximum(batch.rows.traj, 0)]
  sampled = np.asarray(batch.rows.sampled)
  noise = np.random.default_rng(0).normal(size=role.shape)
  gap = np.where(role == 1, noise, 0.01 * noise)
  signals = {'old_logp': batch.rows.logp + jnp.asarray(gap, jnp.float32)}
  weight = np.asarray(credit_of(s, batch, signals).weight)
  assert np.all(weight[sampled & (role == 0)] == 1)
  kept = sampled & (role == 1) & (weight > 0)
  lost = sampled & (role == 1) & (weight == 0)
  assert 0 < lost.sum() < (sampled & (role == 1)).sum()
  assert np.mean(gap[kept] ** 2) <= 0.04 + 1e-6
  assert np.abs(gap[lost]).min() >= np.abs(gap[kept]).max() - 1e-6


def changed(before, after):
  pairs = zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True)
  return any(np.any(a != b) for a, b in pairs)


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize('method', list(PLAYED))
def test_two_updates_on_a_mesh(method, folder):
  """Collected and trained on 2 x 4 devices; who changes, and all is finite."""
  c = config(method, folder, (2, 4))
  s = build.experiment(c)
  with placement.on_mesh(c):
    stage = stages.rl_stage(s, 0, 8, jit_sampler.JitSampler(s))
    state = stage.begin(update_lib.init(s.algorithm, jax.random.key(0)))
    if bound := c.staleness.bound:
      state = stale.begin(state, algorithm.reads(s.config, s.algorithm), bound)
    before = jax.device_get(state.params)
    update = sizes.jit_update(stage.algorithm)
    for step in range(2):
      batch, _ = stage.collect(state, stage.task(state, step), step)
      state, told, _ = update(state, batch)
      for role in s.algorithm.players:
        assert told[f'{role}/nonfinite_skips'][0] == 0
    after = jax.device_get(state.params)
  assert set(before) == {'policy', *PLAYED[method]}
  learns = {'policy': True} | PLAYED[method]
  assert {r: changed(before[r], after[r]) for r in learns} == learns
