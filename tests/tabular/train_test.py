"""Methods at tables: exact worlds, the library's links, one seed as many."""

import functools
import importlib
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import optimizer
from agentrl.configs import grpo, oprl
from agentrl.learner import update
from agentrl.stats import credit_accuracy
from agentrl.tabular import build, diagnostics, mdp, policy, train
from agentrl.types import Batch, Credit, Rows

SMALL = train.Size(tasks=2, group=4)
TOKENS = 3  # of a message


def config(method):
  return importlib.import_module(f'agentrl.configs.{method}').get_config()


def random_world(states=5, actions=3, slip=0.3):
  """State 3 is won, state 4 is lost."""
  r = np.random.default_rng(0)
  to = r.integers(0, states, (states, actions))
  over = np.arange(states) >= 3
  to = np.where(over[:, None], np.arange(states)[:, None], to)
  return mdp.World(
    next=jnp.asarray(to, jnp.int32),
    start=jnp.array([0, 1], jnp.int32),
    won=jnp.arange(states) == 3,
    over=jnp.asarray(over),
    potential=jnp.zeros(states),
    slip=jnp.float32(slip),
  )


def chance(world, p, s, left):
  """The chance to win from s in so many turns, by recursion in float64."""
  if left == 0 or world.over[s]:
    return float(world.won[s])
  a = len(p[s])
  slip = float(world.slip)
  done = (1 - slip) * p[s] + slip / a
  return sum(
    done[i] * chance(world, p, int(world.next[s, i]), left - 1)
    for i in range(a)
  )


def test_values_are_those_of_a_recursion_and_of_play():
  world, turns = random_world(), 4
  known = jax.device_get(world)
  table = policy.Table(5, 3, 1)
  logits = jax.random.normal(jax.random.key(1), (5, 3))
  p = policy.probabilities(table, logits)
  v, q = jax.device_get(mdp.values(world, p, turns))
  exact = np.asarray(p, np.float64)
  for k in range(turns + 1):
    for s in range(5):
      want = chance(known, exact, s, turns - k)
      np.testing.assert_allclose(v[k, s], want, atol=1e-6)
  mean = np.mean([v[2, int(s)] for s in known.next[0]])
  direct = 0.7 * v[2, int(known.next[0, 2])] + 0.3 * mean
  np.testing.assert_allclose(q[1, 0, 2], direct, rtol=1e-5)
  n = 20000
  task = jnp.arange(n) % 2
  play = jax.jit(policy.play, static_argnums=(1, 4))
  told = play(world, table, logits, task, turns, jax.random.key(2))
  rate = float(np.mean(np.asarray(world.won)[told.state[:, -1]]))
  want = float(mdp.success(world, p, turns))
  assert abs(rate - want) < 5 * np.sqrt(want * (1 - want) / n)


@pytest.mark.parametrize('slip', [0.0, 0.2])
def test_bifurcation_is_won_by_the_decisive_choice(slip):
  size = mdp.bifurcation(length=3, choices=4, slip=slip)
  world = size.make(jax.random.key(0), 5)
  chex.assert_shape(world.next, (5 * size.states, 4))
  even = jnp.full(world.next.shape, 0.25)
  v, _ = mdp.values(world, even, size.turns)
  np.testing.assert_allclose(v[0, world.start], 0.25, rtol=1e-6)
  best = 1 - slip + slip / 4
  np.testing.assert_allclose(world.potential[world.start], best, rtol=1e-6)


def test_the_door_opens_with_the_key_only():
  size = mdp.key_door(size=3, turns=12, slip=0.0)
  world = size.make(jax.random.key(3), 4)
  to, won = np.asarray(world.next), np.asarray(world.won)
  assert won.sum() == 4  # one cell of each task
  for task in range(4):
    distance, here = 0, {int(world.start[task])}
    while not won[list(here)].any():
      here |= {int(s) for s in to[list(here)].ravel()}
      distance += 1
    assert {s // size.states for s in here} == {task}
    np.testing.assert_allclose(
      world.potential[world.start[task]], 0.9**distance, rtol=1e-5
    )
    cell = (np.flatnonzero(won)[task] - task * size.states) % 9
    without = task * size.states + cell  # at the door, without the key
    assert not won[without]
    assert (to[without] != without).any()


def test_a_token_is_a_cell_and_a_choice():
  table = policy.Table(states=3, actions=2, tokens=3)
  got = policy.cells(table, jnp.array([0, 2]), jnp.array([1, 0]))
  np.testing.assert_array_equal(got, [[0, 2, 4], [10, 11, 13]])
  assert table.cells == 15
  params = {'table': jax.random.normal(jax.random.key(0), (15, 2))}
  on = jnp.array([[True, True, False]])
  blank = jnp.zeros((1, 3), jnp.int32)
  rows = Rows(tokens=jnp.array([[1, 8, 3]]), seg=blank, traj=blank, turn=blank,
              span=blank, sampled=on, weight=on * 1.0, logp=blank * 0.0,
              version=blank)  # fmt: skip
  needs = ('logp', 'entropy', 'sum_sq_prob')
  out = policy.policy(table).apply(params, rows, needs)
  x = np.asarray(params['table'], np.float64)
  p = np.exp(x) / np.exp(x).sum(1, keepdims=True)
  np.testing.assert_allclose(
    out.logp, [[np.log(p[0, 1]), np.log(p[4, 0]), 0]], rtol=1e-5
  )
  want = [-(p[i] * np.log(p[i])).sum() for i in (0, 4)]
  np.testing.assert_allclose(out.entropy, [[*want, 0]], rtol=1e-5)
  want = [(p[i] ** 2).sum() for i in (0, 4)]
  np.testing.assert_allclose(out.sum_sq_prob, [[*want, 0]], rtol=1e-5)


class Played(NamedTuple):
  case: build.Case
  world: mdp.World
  logits: np.ndarray
  batch: Batch
  credit: Credit


@functools.cache
def played(method):
  """A batch of the warm start and what the method credits it with."""
  size = SMALL._replace(tokens=TOKENS)
  case = build.case(config(method), 'bifurcation', size, 'adam', {'length': 3})
  world = case.world.make(jax.random.key(0), size.tasks)
  learner = build.at_rate(case.learner, 0.1)
  state = update.init(learner, jax.random.key(1))
  logits = train.warm_start(case, world, jax.random.key(2))
  state.params['policy']['table'] = logits

  @jax.jit
  def judged(world, state, key):
    batch, _ = train.sample(case, world, state, key)
    return batch, update.judge(learner, state, batch)[3]

  batch, credit = judged(world, state, jax.random.key(3))
  logits, world, batch, credit = jax.device_get((logits, world, batch, credit))
  return Played(case, world, logits, batch, credit)


def test_credit_of_grpo_is_the_outcome_in_its_group():
  batch, credit = played('grpo')[-2:]
  r = np.asarray(batch.outcome, np.float64).reshape(2, 4)
  std = r.std(axis=1, ddof=1, keepdims=True)
  want = np.where(std > 0, (r - r.mean(1, keepdims=True)) / (std + 1e-6), 0)
  assert (std > 0).any()
  np.testing.assert_allclose(
    credit.turn, np.repeat(want.reshape(-1, 1), 3, 1), rtol=1e-5
  )


def test_credit_of_returns_to_go_and_of_states_is_that_of_a_loop():
  batch, credit = played('gigpo')[-2:]
  r = np.asarray(batch.turns.reward, np.float64)
  state, group = np.asarray(batch.turns.state), np.asarray(batch.ids['group'])
  go = r.copy()
  for k in (1, 0):
    go[:, k] += 0.95 * go[:, k + 1]

  def z(x, xs):
    std = np.std(xs, ddof=1) if len(xs) > 1 else 0
    return (x - np.mean(xs)) / (std + 1e-6) if std > 0 else 0

  for i, k in np.ndindex(r.shape):
    mates = [j for j in range(len(r)) if group[j] == group[i]]
    same = [go[j, m] for j in mates for m in range(3)
            if state[j, m] == state[i, k]]  # fmt: skip
    want = z(r[i].sum(), [r[j].sum() for j in mates]) + z(go[i, k], same)
    np.testing.assert_allclose(credit.turn[i, k], want, rtol=1e-4, atol=1e-5)


def test_what_is_told_of_a_batch():
  case, world, logits, batch, _ = played('grpo')
  p = np.asarray(policy.probabilities(case.table, logits), np.float64)
  s, a = batch.turns.state, batch.rows.tokens[:, 0].reshape(8, 3) % 4
  for i, k in np.ndindex(8, 3):
    now, after = int(s[i, k]), int(world.next[s[i, k], a[i, k]])
    want = chance(world, p, after, 2 - k) - chance(world, p, now, 3 - k)
    np.testing.assert_allclose(
      batch.turns.terms['truth'][i, k], want, atol=1e-6
    )
  assert batch.rows.logp.shape == (24, TOKENS)
  apply = jax.jit(
    case.learner.context.modules['policy'].apply, static_argnums=2
  )
  out = apply({'table': logits}, batch.rows, ('logp',))
  np.testing.assert_allclose(out.logp, batch.rows.logp, rtol=1e-6)


@pytest.mark.parametrize('size', [1.0, 0.1])
def test_bias_and_noise_are_those_of_agreement(size):
  batch = jax.tree.map(jnp.asarray, played('grpo').batch)
  credit = size * jax.random.normal(jax.random.key(5), batch.turns.valid.shape)
  credit += 3 * batch.turns.terms['truth']
  got = diagnostics.bias_and_noise(
    jax.jit(diagnostics.cell_sums)(credit, batch)
  )
  cell = np.asarray(batch.rows.tokens[:, 0]) * 3 + np.tile([0, 1, 2], 8)
  x, t = (
    np.asarray(y, np.float64).reshape(-1)
    for y in (credit, batch.turns.terms['truth'])
  )
  _, bias, noise = credit_accuracy.bias_and_noise(x, t, cell)
  np.testing.assert_allclose(got['credit bias'], bias, rtol=1e-4)
  np.testing.assert_allclose(got['credit noise'], noise, rtol=1e-4)
  assert size == 1 or (0 < bias < 1 and noise > 0)


def test_roles_learn_at_their_multiple_of_the_policys_rate():
  c = config('oprl')
  c.role.policy.lr, c.role.prm.lr = 2e-4, 5e-5
  made = build.case(c, 'bifurcation', SMALL, 'adam', {'length': 3})
  rules = build.at_rate(made.learner, 0.2).context.rules
  assert rules['policy'].lr == pytest.approx(0.2)
  assert rules['prm'].lr == pytest.approx(0.05)
  assert {rule.warmup for rule in rules.values()} == {0}


def test_sgd_is_a_step_along_the_gradient():
  rule = build.plain(optimizer.Rule(lr=0.5))
  params = {'x': jnp.array([1.0, -2.0])}
  grads = {'x': jnp.array([3.0, 1e-4])}
  opt = optimizer.init(rule, params)
  got, _, _ = optimizer.step(rule, grads, opt, params)
  np.testing.assert_allclose(got['x'], [-0.5, -2.0 - 5e-5], rtol=1e-5)


def few(c, seeds=tuple(range(8)), **more):
  return train.curves(
    c, 'bifurcation', (0.3,), seeds, 12, size=SMALL, settings={'length': 3},
    **more
  )  # fmt: skip


@functools.cache
def grpo_curves():
  return few(grpo.get_config())


@pytest.mark.slow
def test_grpo_learns():
  got = grpo_curves()
  s = got['success'][0]
  assert s.shape == (8, 13)
  assert got['env_steps'].shape == (1, 8, 13)
  assert s[:, -1].mean() > s[:, 0].mean() + 0.15
  np.testing.assert_array_equal(got['env_steps'][0, :, 1], 24)


@pytest.mark.slow
def test_many_seeds_together_are_each_by_itself():
  got, want = few(grpo.get_config(), seeds=(5,)), grpo_curves()
  for name in ('env_steps', 'success'):
    np.testing.assert_allclose(got[name][:, 0], want[name][:, 5], rtol=1e-4)
  for name, x in got['told'].items():
    y = want['told'][name][:, 5]
    np.testing.assert_allclose(x[:, 0], y, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_oprl_without_its_steps_is_grpo():
  c = oprl.get_config()
  c.coef.step = 0.0
  got, want = few(c), grpo_curves()
  np.testing.assert_array_equal(got['success'], want['success'])
  np.testing.assert_array_equal(got['env_steps'], want['env_steps'])
  assert {'prm correlation', 'early prm distance'} <= set(got['told'])


@pytest.mark.slow
def test_another_salt_is_other_luck_for_the_same_start():
  got, want = few(grpo.get_config(), salt=1), grpo_curves()
  got, want = got['success'], want['success']
  np.testing.assert_array_equal(got[..., 0], want[..., 0])
  assert (got[..., -1] != want[..., -1]).any()


@pytest.mark.slow
@pytest.mark.parametrize('method', ['ppo_bilevel', 'prime', 'oprl_restart'])
def test_every_kind_of_signal_learns_from_two_tokens(method):
  got = train.curves(
    config(method), 'key_door', (0.1,), (0,), 2, optimizer='sgd',
    size=SMALL._replace(tokens=2), settings={'size': 3, 'turns': 6},
  )  # fmt: skip
  chex.assert_tree_all_finite(got)
  name = 'value error' if method == 'ppo_bilevel' else 'prm distance'
  assert got['told'][name].shape == (1, 1)


BAD = {
  'archer': 'has no table',
  'arpo': 'samples in a way of its own',
}


@pytest.mark.parametrize('method', BAD)
def test_what_tables_cannot_stand_for_is_said(method):
  with pytest.raises(ValueError, match=BAD[method]):
    build.fits(config(method))


@pytest.mark.parametrize('bad', [
  {'world': 'maze'}, {'rates': ()}, {'rates': (0.0,)}, {'iterations': 0},
  {'optimizer': 'newton'}, {'settings': {'slip': 2.0}},
])  # fmt: skip
def test_bad_input(bad):
  good = {'world': 'key_door', 'rates': (0.1,), 'seeds': (0,), 'iterations': 1}
  with pytest.raises(ValueError):
    train.curves(grpo.get_config(), **(good | bad))
