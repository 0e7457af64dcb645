"""VPR and Digi-Q: what candidates that were not played are learned from."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import loop, registry
from agentrl.advantage import chain
from agentrl.configs import base, digiq, vpr
from agentrl.learner import update
from agentrl.model import microbatch
from agentrl.ops import counting
from agentrl.run import build, placement
from agentrl.run.check import validate
from agentrl.run.play import sampler
from agentrl.run.stage import stages
from agentrl.signal import archer
from agentrl.types import Status
from tests.collect import candidates_test as cases

B, K, EACH = cases.B, cases.K, cases.EACH


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  return str(tmp_path_factory.mktemp('data'))


@functools.cache
def trained(folder, env):
  """Setup, a real batch of candidates, and its credit."""
  s, _, batch = cases.collected(cases.config(folder, env))
  return s, jax.device_get(batch), credit_of(s, batch)


def credit_of(s, batch):
  signals = {'old_logp': batch.rows.logp}
  credit, _ = jax.jit(functools.partial(update.compute_advantage, s.algorithm))(
    batch, signals
  )
  whole = chain.token_advantage(credit, batch.rows)
  return jax.device_get(credit.replace(token=whole))


def own_turns(batch):
  return list(zip(*np.nonzero(batch.turns.scored), strict=True))


def reference(batch):
  """[B, K] in float64, from what each candidate is; NaN: out of the loss."""
  limit = batch.turns.valid.shape[1]
  q, cells = {}, {}
  for i, t in own_turns(batch):
    q[i, t] = np.float64(batch.turns.terms['progress'][i, t])
    last = t == batch.turns.valid[i].sum() - 1
    if last and (batch.status[i] != Status.SCHEDULE or t + 1 == limit):
      q[i, t] += np.float64(batch.outcome[i])
    key = int(batch.ids['group'][i]), int(batch.turns.state[i, t])
    cells.setdefault(key, []).append((i, t))
  out = np.full(batch.turns.valid.shape, np.nan)
  for members in cells.values():
    values = np.array([q[x] for x in members])
    if np.ptp(values) > 1e-6:
      for x, value in zip(members, values, strict=True):
        out[x] = value - values.mean()
  kept = out[~np.isnan(out)]
  return (out - kept.mean()) / np.sqrt(kept.var() + 1e-8)


@pytest.mark.slow
@pytest.mark.parametrize('env', ['sokoban', 'frozen_lake'])
def test_the_advantage_is_the_equation(folder, env):
  _, batch, credit = trained(folder, env)
  want = reference(batch)
  rows = batch.rows
  for i, t in own_turns(batch):
    here = (rows.traj == i) & (rows.turn == t) & rows.sampled
    assert here.any()
    if np.isnan(want[i, t]):
      assert not credit.weight[here].any()
    else:
      np.testing.assert_array_equal(credit.weight[here], 1)
      np.testing.assert_allclose(credit.token[here], want[i, t], atol=2e-5)
  learned = credit.weight > 0
  assert not (learned & ~rows.sampled).any()
  assert learned.sum() > B


@pytest.mark.parametrize('env', ['sokoban', 'frozen_lake'])
def test_better_and_worse_candidates_that_were_not_played_move(folder, env):
  """Without them no state has anything to be compared with."""
  s, batch, credit = trained(folder, env)
  unplayed = batch.ids['unplayed'][np.maximum(batch.rows.traj, 0)] == 1
  learned = (credit.weight > 0) & (batch.rows.traj >= 0)
  theirs, own = (credit.token[learned & x] for x in (unplayed, ~unplayed))
  assert (theirs < -0.1).any()
  assert (theirs > 0.1).any()  # another of the best
  assert (own > 0.1).any()
  rows = batch.rows
  for (_, t), members in cases.owners(batch).items():
    here = (rows.turn == t) & rows.sampled
    each = [credit.token[here & (rows.traj == i)].mean() for i in members]
    assert each[0] >= max(each) - 1e-4  # the path's, of its four
  turns = batch.turns
  path = counting.played(batch)[:, None]
  alone = batch.replace(turns=turns.replace(scored=turns.scored & path))
  assert (
    np.abs(credit_of(s, alone).token).sum() < np.abs(credit.token).sum() / 4
  )


def test_without_candidates_it_is_what_the_group_did(folder):
  c = cases.config(folder)
  c.collect = 'once'
  registry.check(base.wiring(validate.config(c)), c)
  _, _, batch = cases.collected(c)
  assert batch.outcome.shape == (B,)
  assert counting.UNPLAYED not in batch.ids


def digi(folder):
  c = digiq.get_config('tiny,env=sokoban')
  own = cases.config(folder, 'sokoban')
  for name in ('env', 'model', 'rollout', 'data'):
    c[name] = own[name]
  c.sft.batch, c.micro_batch = B, 16
  return c


@pytest.mark.slow
def test_q_is_regressed_on_what_was_played_alone(folder):
  """An unplayed candidate's reward, end and state change no target of Q."""
  _, _, batch = cases.collected(digi(folder))
  batch = jax.device_get(batch)
  value = jax.random.normal(jax.random.key(0), (*batch.rows.tokens.shape, 4))
  targets = jax.jit(functools.partial(archer.td_targets, gamma=0.9))
  goal, weight = targets(value, batch)
  unplayed = batch.ids['unplayed'][np.maximum(batch.rows.traj, 0)] == 1
  assert (weight[~unplayed][:, 0] > 0).sum() >= B // 4
  assert not weight[unplayed][:, :2].any()
  assert (weight[unplayed][:, 2] > 0).any()  # V is of all candidates
  leaf = (batch.ids['unplayed'] == 1)[:, None] & batch.turns.scored
  reward = batch.turns.reward + 7.0 * leaf
  status = np.where(leaf.any(axis=1), Status.SOLVED, batch.status)
  other = batch.replace(turns=batch.turns.replace(reward=reward), status=status)
  goal2, weight2 = targets(value, other)
  np.testing.assert_array_equal(weight, weight2)
  np.testing.assert_array_equal(goal[weight > 0], goal2[weight > 0])


@pytest.mark.slow
def test_the_best_candidate_is_imitated_whether_it_was_played_or_not(folder):
  s, _, batch = cases.collected(digi(folder))
  batch = jax.device_get(batch)
  a = np.asarray(jax.random.normal(jax.random.key(1), batch.turns.valid.shape))
  signals = {'archer': jnp.asarray(a), 'old_logp': batch.rows.logp}
  credit, _ = update.compute_advantage(s.algorithm, batch, signals)
  cells: dict[tuple[int, int], list] = {}
  for i, t in own_turns(batch):
    key = int(batch.ids['group'][i]), int(batch.turns.state[i, t])
    cells.setdefault(key, []).append((i, t))
  rows, of_leaves = batch.rows, 0
  for members in cells.values():
    best = max(members, key=lambda x: a[x])
    for i, t in members:
      here = (rows.traj == i) & (rows.turn == t) & rows.sampled
      want = (i, t) == best and a[i, t] > 0.1
      np.testing.assert_array_equal(credit.weight[here], float(want))
      of_leaves += bool(want and batch.ids['unplayed'][i])
  assert of_leaves > 2
  assert len(cells) > 4


@pytest.mark.nightly
@pytest.mark.parametrize('env', ['sokoban', 'household'])
def test_an_update_on_a_mesh(tmp_path, env):
  """Rows of a batch are split over devices, trees are not."""
  c = vpr.get_config(f'tiny,env={env}')
  c.data = str(tmp_path / 'data')
  c.env.update(dict(train=8, test=2))
  c.model.update(
    dict(width=16, layers=1, heads=4, kv_heads=4, head_dim=4, mlp=16)
  )
  c.rollout.update(dict(batch=8, group_size=4, slots=8, max_turns=3))
  c.sft.batch, c.micro_batch = 8, 8
  c.mesh.fsdp, c.mesh.tensor, c.mesh.explicit = 2, 2, True
  s = build.experiment(c)
  with placement.on_mesh(s.config), sampler.open_sampler(s) as playing:
    stage = stages.rl_stage(s, 0, 2, playing)
    state = stage.begin(update.init(s.algorithm, jax.random.key(0)))
    batch, told = stage.collect(state, stage.task(state, 0), 0)
    learn = loop.jit_update(stage.algorithm, update.update)
    _, metrics, _ = learn(state, batch)
    assert np.isfinite(metrics['loss/total'][0])
    assert batch.outcome.shape == (24,)
    assert int(told['rollout/attempts'][0]) >= 8


@pytest.mark.slow
def test_candidates_of_host_environments(tmp_path):
  """Of a world that is replayed, with a history that grows."""
  c = vpr.get_config('tiny,env=household')
  c.data = str(tmp_path / 'data')
  c.env.update(dict(train=8, test=2))
  c.model.update(
    dict(width=16, layers=1, heads=2, kv_heads=2, head_dim=8, mlp=32)
  )
  c.rollout.update(dict(batch=8, group_size=4, slots=4, max_turns=3))
  c.sft.batch, c.micro_batch = 8, 8
  s = build.experiment(c)
  with sampler.open_sampler(s) as playing:
    stage = stages.rl_stage(s, 0, 2, playing)
    state = stage.begin(update.init(s.algorithm, jax.random.key(0)))
    batch, told = stage.collect(state, stage.task(state, 0), 0)
    again, _ = stage.collect(state, stage.task(state, 0), 0)
    apply = s.algorithm.context.modules['policy'].apply
    out = microbatch.forward(
      apply, state.params['policy'], batch.rows, ('logp',), 8
    )
    learn = loop.jit_update(stage.algorithm, update.update)
    _, metrics, _ = learn(state, batch)
  batch, again, logp = jax.device_get((batch, again, out.logp))
  # Log-probs round by who shares their call, and that is a matter of time.
  chex.assert_trees_all_close(batch.turns, again.turns, rtol=1e-5)
  each = 3 * 4
  assert batch.outcome.shape == (2 * each,)
  path = batch.ids['unplayed'] == 0
  np.testing.assert_array_equal(np.flatnonzero(path), [0, each])
  sampled = batch.rows.sampled
  np.testing.assert_allclose(logp[sampled], batch.rows.logp[sampled], atol=1e-5)
  assert sampled.sum() == batch.sampled['tokens']
  cells: dict[tuple[int, int], list] = {}
  for i, t in own_turns(batch):
    cells.setdefault((int(i) // each, int(t)), []).append(int(i))
  assert {len(x) for x in cells.values()} == {4}
  assert {t for _, t in cells} == {0, 1, 2}
  for (_, t), members in cells.items():
    assert len({batch.turns.state[i, t] for i in members}) == 1
    assert len({batch.rows.tokens[i].tobytes() for i in members}) > 1
  assert told['rollout/turns'][0] == batch.turns.valid[path].sum()
  assert np.isfinite(metrics['loss/total'][0])
