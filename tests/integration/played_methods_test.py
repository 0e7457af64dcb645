"""Methods of several policies, each by what it is named for."""

import functools
import importlib
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import registry, segment
from agentrl.advantage import chain
from agentrl.learner import policies, sizes
from agentrl.learner import update as update_lib
from agentrl.model import microbatch
from agentrl.rollout import stale
from agentrl.run import algorithm, build, placement
from agentrl.run.play import jit_sampler
from agentrl.run.stage import stages

# Roles beside the policy: does it learn.
PLAYED = {
  'agentflow': {'modules': False, 'reference': False},
  'ai_searchplanner': {'generator': False, 'value': True},
  'astraflow': {'verifier': True},
  'comas': {'second': True, 'third': True, 'reference': False},
  'cory': {'twin': True, 'value': True, 'reference': False},
  'dr_mas_models': {'verifier': True},
  'marft': {'searcher': True, 'answerer': True, 'value': True},
  'unitymas_o': {'answerer': True},
}


def config(method, folder, sizes=(1, 1), **rollout):
  c = importlib.import_module(f'agentrl.configs.{method}').get_config()
  c.data = str(folder)
  c.model.update(
    dict(width=16, layers=1, heads=4, kv_heads=4, head_dim=4, mlp=16)
  )
  b = 48 if len(c.rollout.seats) == 3 else 32  # whole matches
  plan = dict(batch=b, group_size=b // 2, slots=b)
  c.rollout.update(plan | rollout)
  c.micro_batch = c.sft.batch = b
  c.env.update(dict(train=16, test=4, illegal='random'))
  if c.env.name == 'workflow':
    c.env.things = 2  # half of the guesses are right
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


def outcomes(batch):
  """Group and outcome of each match, and its planner's: [B / S] each."""
  agent = np.asarray(batch.turns.agent)[:, 0]
  return agent, np.asarray(batch.ids['group']), np.asarray(batch.outcome)


@pytest.mark.nightly
def test_agentflow_broadcasts_one_outcome_to_every_turn_of_the_planner(folder):
  """z over the planners of a group; a nested mean over its tokens alone."""
  s, _, state, batch = collected('agentflow', folder)
  agent, group, won = outcomes(batch)
  valid = np.asarray(batch.turns.valid)
  counts = valid.any(axis=1)
  assert {*valid[agent == 0].sum(axis=1)} > {1}  # planners of several turns
  assert 0 < won[agent == 0].mean() < 1
  turn = np.asarray(credit_of(s, batch).turn)
  for g in np.unique(group):
    own = (agent == 0) & (group == g) & counts
    r = won[own].astype(np.float64)
    want = (r - r.mean()) / (r.std(ddof=1) + 1e-6) if r.std() else 0 * r
    for i, a in zip(np.flatnonzero(own), want, strict=True):
      np.testing.assert_allclose(turn[i][valid[i]], a, atol=1e-3)
  batch = policies.learned(s.algorithm, batch)
  view = next(policies.views(s.algorithm, state, batch))
  assert view.role == 'policy'
  rows, (b, k) = view.batch.rows, valid.shape
  mean = s.config.loss_aggregation['ppo']
  got = registry.get('loss_aggregation', mean, 'loss_aggregation.ppo').f(
    rows.weight, rows, b, k
  )
  traj, at, sampled = map(np.asarray, (rows.traj, rows.turn, rows.sampled))
  live = {int(i) for i in traj[sampled]}
  assert live == {*np.flatnonzero((agent == 0) & counts)}
  want = np.zeros(traj.shape, np.float64)
  for i in live:
    turns = {int(j) for j in at[sampled & (traj == i)]}
    for j in turns:
      mine = sampled & (traj == i) & (at == j)
      want[mine] = 1 / len(live) / len(turns) / mine.sum()
  np.testing.assert_allclose(got, want, rtol=1e-6)
  assert want.sum() == pytest.approx(1)


@pytest.mark.slow
def test_ai_searchplanner_is_paid_for_what_its_search_adds(folder):
  """A generator that was right without it earns the planner nothing."""
  s, _, _, batch = collected('ai_searchplanner', folder)
  valid, terms = np.asarray(batch.turns.valid), batch.turns.terms
  reward = np.asarray(batch.turns.reward).sum(axis=1)
  right, searched = (np.asarray(terms[x]) for x in ('right', 'searched'))
  seen = set()
  for first in range(0, 48, 3):
    unaided, planner, aided = range(first, first + 3)
    if not valid[aided].any():
      continue
    gain = right[aided, 0] - right[unaided, 0]
    assert batch.outcome[planner] == right[aided, 0]
    fit = right[planner][valid[planner]].mean()
    searches = searched[planner].sum()
    want = gain + 0.2 * fit - 0.1 * searches
    assert reward[planner] == pytest.approx(want, abs=1e-5)
    seen.add((float(gain), float(searches)))
  assert len({gain for gain, _ in seen}) > 1 < len({n for _, n in seen})
  role = np.asarray(batch.ids['role'])
  players = s.algorithm.players
  seat = np.asarray(batch.ids['seat'])
  np.testing.assert_array_equal(role == players.index('policy'), seat == 1)


@pytest.mark.nightly
def test_unitymas_compares_nodes_of_one_role_and_invocation(folder):
  """Without either key a node would be compared with other nodes' prompts."""
  s, _, _, batch = collected('unitymas_o', folder)
  valid = np.asarray(batch.turns.valid)
  agent, group, _ = outcomes(batch)
  role = np.asarray(batch.ids['role'])
  np.testing.assert_array_equal(role, agent == 2)  # two of three share
  total = np.asarray(batch.turns.reward).sum(axis=1)
  right = np.asarray(batch.turns.terms['right'])
  node = total[:, None] + 0.1 * right
  got, several = np.asarray(credit_of(s, batch).turn), 0
  for g, a, k in itertools.product(np.unique(group), range(3), range(3)):
    own = valid[:, k] & (agent == a) & (group == g)
    if not own.any():
      continue
    r = node[own, k].astype(np.float64)
    several += len(np.unique(r)) > 1
    spread = r.std(ddof=1) if len(r) > 1 else 0
    want = (r - r.mean()) / (spread + 1e-6) if spread > 1e-5 else 0 * r
    np.testing.assert_allclose(got[own, k], want, atol=1e-3)
  assert several > 3
  assert got[valid].any()


@pytest.mark.slow
def test_unitymas_sharing_is_a_line_of_the_config(folder):
  c = config('unitymas_o', folder)
  for seats in (('policy',) * 3, ('policy', 'answerer', 'answerer')):
    c.rollout.seats = seats
    if 'answerer' not in seats:
      del c.role.answerer
    s = build.experiment(c)
    assert s.algorithm.players == tuple(dict.fromkeys(seats))
    c = config('unitymas_o', folder)


@pytest.mark.slow
def test_marft_credits_those_who_spoke_before_the_one_that_is_paid(folder):
  """By their own returns, which are 0, only the answerer would learn."""
  s, _, _, batch = collected('marft', folder)
  valid, reward = map(np.asarray, (batch.turns.valid, batch.turns.reward))
  agent = np.asarray(batch.turns.agent)
  assert not reward[valid & (agent < 2)].any()
  assert reward[valid & (agent == 2)].any()
  moment = np.asarray(batch.turns.terms['moment'])
  shape = batch.rows.tokens.shape
  value = jnp.asarray(np.random.default_rng(0).normal(size=shape), jnp.float32)
  index = segment.index(batch)
  first, _ = index.bounds(batch.rows.sampled)
  v = np.asarray(index.at_turns(value, first), np.float64)
  bound = s.algorithm.streams['turn']
  credit, _ = chain.advantage({'turn': bound}, {}, [], batch, {'value': value})
  got, match = np.asarray(credit.turn), np.asarray(batch.ids['match'])
  speakers = []
  for m in np.unique(match):
    turns = np.argwhere(valid & (match == m)[:, None])
    order = sorted(map(tuple, turns), key=lambda x: moment[x])
    assert [moment[x] for x in order] == list(range(len(order)))
    speakers.append([int(agent[x]) for x in order])
    a, after = 0.0, 0.0
    for x in reversed(order):
      a = reward[x] + 0.99 * after - v[x] + 0.99 * 0.95 * a
      after = v[x]
      assert got[x] == pytest.approx(a, abs=1e-5)
  assert {x[0] for x in speakers} == {0}
  assert any(x[-1] == 2 and len(x) > 3 for x in speakers)
  of_planners = got[valid & (agent == 0)]
  assert np.abs(of_planners).min() > 0


@pytest.mark.nightly
def test_marft_trains_one_agent_at_a_time(folder):
  s, _, state, batch = collected('marft', folder)
  before = jax.tree.map(np.asarray, state.params)
  for step, learner in ((0, 'policy'), (1, 'searcher'), (2, 'answerer')):
    now = state.replace(step=jnp.int32(step))
    after = update_lib.update(s.algorithm, now, batch)[0].params
    moved = {name for name in before if changed(before[name], after[name])}
    assert moved == {learner, 'value'}


@pytest.mark.slow
@pytest.mark.parametrize('step', [4, 5])
def test_comas_pays_solver_and_critic_one_between_them(folder, step):
  """By scores alone, and every agent comes to every seat."""
  s, _, _, batch = collected('comas', folder, step)
  reward = np.asarray(batch.turns.reward).sum(axis=1).reshape(-1, 3)
  np.testing.assert_allclose(reward[:, 0] + reward[:, 1], 1, atol=1e-6)
  np.testing.assert_array_equal(reward[:, 2], 0)
  assert len(np.unique(reward[:, 0])) > 1
  won = np.asarray(batch.outcome).reshape(-1, 3)[:, 0]
  assert np.any(reward[:, 0] != won)  # the truth pays nobody
  role = np.asarray(batch.ids['role']).reshape(-1, 3)
  np.testing.assert_array_equal(
    role, np.tile((np.arange(3) + step) % 3, (16, 1))
  )
  turn = np.asarray(credit_of(s, batch).turn)[:, 0].reshape(-1, 3)
  for seat in range(3):
    r = reward[:, seat].astype(np.float64)
    spread = r.std(ddof=1)
    want = (r - r.mean()) / (spread + 1e-6) if spread else 0 * r
    np.testing.assert_allclose(turn[:, seat], want, atol=1e-3)
  assert not turn[:, 2].any()  # a scorer learns from what cannot be read alone


def changed(before, after):
  pairs = zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True)
  return any(np.any(a != b) for a, b in pairs)


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize('method', list(PLAYED))
def test_updates_on_a_mesh(method, folder):
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
    turns = (
      len(policies.learning(s.algorithm)) if c.rollout.learn_in_turn else 2
    )
    for step in range(turns):
      batch, _ = stage.collect(state, stage.task(state, step), step)
      state, told, _ = update(state, batch)
      for role in policies.learning(s.algorithm):
        assert told[f'{role}/nonfinite_skips'][0] == 0
    after = jax.device_get(state.params)
  assert set(before) == {'policy', *PLAYED[method]}
  learns = {'policy': True} | PLAYED[method]
  assert {r: changed(before[r], after[r]) for r in learns} == learns
