"""Several policies learn from one batch: each as if it were alone with its own.

The network is a distribution over words that does not look at anything, so
that gradients can be written down.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import agentrl.loss  # noqa: F401  registers the losses
from agentrl import optimizer, registry
from agentrl.advantage import chain
from agentrl.learner import policies
from agentrl.learner import update as update_lib
from agentrl.learner.algorithm import POLICY, Algorithm
from agentrl.signal.base import Context
from agentrl.types import Module, Outputs
from tests import batches, states

pytestmark = pytest.mark.usefixtures('float64')
OTHER, THIRD, V, RATE = 'other', 'third', 20, 0.5
PLAYERS = POLICY, OTHER


def apply(params, rows, needs):
  logp = jax.nn.log_softmax(params['w'])
  entropy = -jnp.sum(jnp.exp(logp) * logp)
  own = logp[rows.tokens % V]
  return Outputs(logp=own, entropy=jnp.full(own.shape, entropy))


def algorithm(players=PLAYERS, frozen=(), loss=('reinforce',), **settings):
  rule = optimizer.OptimizerConfig(
    optimizer='optax:sgd',
    lr=RATE,
    warmup=0,
    max_grad_norm=np.inf,
  )
  spec = registry.MethodSpec(
    advantage=('episode',),
    stream={'episode': ('episode_return',)},
    loss=loss,
    hp=settings.pop('hp', {}),
  )
  module = Module({}, apply)
  return Algorithm.from_spec(
    spec,
    Context(
      dict.fromkeys(players, module),
      {name: rule for name in players if name not in frozen},
      2,
    ),
    players=players,
    **settings,
  )


def given(players=PLAYERS, seed=0):
  """A state of players that differ, and a batch that they wrote."""
  r = np.random.default_rng(seed)
  batch = batches.lay(batches.story(3), 'history', padding=1).batch
  b = len(batch.outcome)
  role = np.arange(b, dtype=np.int32) % len(players)
  batch = jax.tree.map(
    jnp.asarray, batch.replace(ids={**batch.ids, 'role': role})
  )
  params = {name: {'w': jnp.asarray(r.normal(size=V))} for name in players}
  return params, batch


def start(alg, params):
  opt = {
    role: optimizer.init(rule, params[role])
    for role, rule in alg.context.rules.items()
  }
  return states.state(params=params, opt=opt)


def update(alg):
  return jax.jit(lambda state, batch: update_lib.update(alg, state, batch)[:2])


def mean_gradient(w, batch, i):
  """d/dw of the mean of −A log p over the words that player i sampled."""
  rows = batch.rows
  role = np.asarray(batch.ids['role'])[np.maximum(rows.traj, 0)]
  weight = np.where(rows.sampled & (role == i), rows.weight, 0)
  scored = np.all(batch.turns.scored | ~batch.turns.valid, axis=1)
  total = np.sum(batch.turns.reward * batch.turns.valid, axis=1) * scored
  a = np.where(rows.traj >= 0, total[np.maximum(rows.traj, 0)], 0)
  p = np.exp(w) / np.exp(w).sum()
  words = np.asarray(rows.tokens) % V
  out = np.zeros(V)
  for n, t in np.argwhere(weight > 0):
    out -= weight[n, t] * a[n, t] * (np.eye(V)[words[n, t]] - p)
  return out / weight.sum()


def test_each_takes_the_step_of_its_own_words():
  alg, (params, batch) = algorithm(), given()
  state, metrics = update(alg)(start(alg, params), batch)
  for i, role in enumerate(PLAYERS):
    w = np.asarray(params[role]['w'])
    grad = mean_gradient(w, batch, i)
    assert np.linalg.norm(grad) > 0.1
    np.testing.assert_allclose(
      state.params[role]['w'], w - RATE * grad, rtol=1e-6
    )
    norm = metrics[f'{role}/grad_norm'][0]
    np.testing.assert_allclose(norm, np.linalg.norm(grad), rtol=1e-6)
  assert {'loss/total', 'other/loss/total'} <= set(metrics)


def test_what_one_wrote_does_not_reach_the_other():
  alg, (params, batch) = algorithm(loss=('ppo', 'entropy')), given()
  run, state = update(alg), start(alg, params)
  role = np.asarray(batch.ids['role'])[np.maximum(batch.rows.traj, 0)]
  tokens = jnp.where(role == 1, batch.rows.tokens + 3, batch.rows.tokens)
  theirs = batch.replace(rows=batch.rows.replace(tokens=tokens))
  one, two = run(state, batch)[0], run(state, theirs)[0]
  np.testing.assert_array_equal(
    one.params[POLICY]['w'], two.params[POLICY]['w']
  )
  assert np.abs(one.params[OTHER]['w'] - two.params[OTHER]['w']).max() > 1e-3


def test_old_log_probs_are_those_of_the_words_own_policy():
  two = {'minibatch': {'minibatches': {'n': 2}}}
  alg, (params, batch) = algorithm(loss=('ppo',), hp=two), given()
  state = start(alg, params)
  signals, metrics = update_lib.old_policy_outputs(alg, state, batch)
  role = np.asarray(batch.ids['role'])[np.maximum(batch.rows.traj, 0)]
  logp = [jax.nn.log_softmax(params[x]['w']) for x in PLAYERS]
  want = np.choose(role, [x[batch.rows.tokens % V] for x in logp])
  sampled = np.asarray(batch.rows.sampled)
  np.testing.assert_allclose(
    signals['old_logp'][sampled], want[sampled], rtol=1e-9
  )
  assert metrics['logp/sampler_mismatch'][1] > 0


def test_minibatches_are_dealt_of_each_policys_own_trajectories():
  two = {'minibatch': {'minibatches': {'n': 2}}}
  alg, (params, batch) = algorithm(hp=two), given()
  state = start(alg, params)
  for view in policies.views(alg, state, batch):
    masks = update_lib.minibatches(view.alg, view.state, view.batch)
    live = [
      np.unique(batch.rows.traj[np.asarray(m & (view.batch.rows.weight != 0))])
      for m in masks
    ]
    assert len(live) == 2
    assert abs(len(live[0]) - len(live[1])) <= 1
    assert min(map(len, live)) >= 2


def test_a_frozen_player_stays_and_weighs_nothing():
  alg, (params, batch) = algorithm(frozen=(OTHER,)), given()
  state, metrics = update(alg)(start(alg, params), batch)
  np.testing.assert_array_equal(state.params[OTHER]['w'], params[OTHER]['w'])
  assert np.any(state.params[POLICY]['w'] != params[POLICY]['w'])
  assert not any(name.startswith(OTHER) for name in metrics)
  _, kept, _ = update_lib.curated(alg, start(alg, params), batch)
  role = np.asarray(batch.ids['role'])[np.maximum(batch.rows.traj, 0)]
  assert not np.any(np.where(role == 1, kept.rows.weight, 0))
  assert np.any(np.where(role == 0, kept.rows.weight, 0))


def test_in_turn_one_learns_and_the_other_waits():
  """A version counts a policy's own updates."""
  alg, (params, batch) = algorithm(learn_in_turn=2), given()
  run, state, learned = update(alg), start(alg, params), []
  seen = dict.fromkeys(PLAYERS, 0)
  for step in range(6):
    assert policies.versions(alg, step) == seen
    new, metrics = run(state, batch)
    changed = [
      role
      for role in PLAYERS
      if np.any(new.params[role]['w'] != state.params[role]['w'])
    ]
    (role,) = changed
    assert metrics[f'{role}/grad_norm'][1] == 1
    seen[role] += 1
    learned.append(role)
    state = new
  assert learned == [POLICY, POLICY, OTHER, OTHER, POLICY, POLICY]


@pytest.mark.parametrize(
  ('players', 'frozen', 'every'),
  [
    (PLAYERS, (), 0),
    (PLAYERS, (), 3),
    ((POLICY, OTHER, THIRD), (), 2),
    ((POLICY, OTHER, THIRD), (OTHER,), 2),
  ],
)
def test_versions_are_counted_from_the_start_of_a_stage(players, frozen, every):
  alg = algorithm(players, frozen, learn_in_turn=every, start=5)
  learners = [x for x in players if x not in frozen]
  count = dict.fromkeys(players, 5)
  for done in range(20):
    assert policies.versions(alg, 5 + done) == count
    got = policies.played_versions(alg, jnp.int32(5 + done))
    np.testing.assert_array_equal(got, list(count.values()))
    for i, role in enumerate(learners):
      if not every or done // every % len(learners) == i:
        count[role] += 1


def test_one_policy_is_marked_with_the_step():
  alg = algorithm((POLICY,))
  assert policies.played_versions(alg, 7).shape == ()
  params, batch = given((POLICY,))
  (view,) = policies.views(alg, start(alg, params), batch)
  assert view.batch is batch


def test_returns_are_measured_by_role():
  _, batch = given()
  measured = policies.ByRole(PLAYERS)(batch)
  scored = np.all(batch.turns.scored | ~batch.turns.valid, axis=1)
  counted = scored & np.any(batch.turns.valid, axis=1)
  total = np.sum(batch.turns.reward * batch.turns.valid, axis=1)
  for i, role in enumerate(PLAYERS):
    own = counted & (np.asarray(batch.ids['role']) == i)
    np.testing.assert_allclose(measured[f'{role}/return'][0], total[own].sum())
    assert measured[f'{role}/return'][1] == own.sum()
    won = own & (np.asarray(batch.outcome) > 0.5)
    assert measured[f'{role}/success'][0] == won.sum()


def test_credit_is_of_the_whole_batch():
  alg, (_, batch) = algorithm(), given()
  credit, _ = update_lib.compute_advantage(alg, batch, {})
  assert np.count_nonzero(chain.token_advantage(credit, batch.rows)) > 40
