"""A reward model of users: its evidence by loops, and users who disagree."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from agentrl import optimizer, registry
from agentrl.configs import base, stages, vpl
from agentrl.run.check import validate
from agentrl.signal import latent_reward as lib
from agentrl.signal.base import Context
from agentrl.types import Batch, Module, Outputs
from tests import errors, states

KINDS, USERS, LATENTS = 4, 12, 2
RULE = optimizer.OptimizerConfig(lr=0.05)


def apply(params, rows, needs):
  """A value for each kind of trajectory, in every head."""
  return Outputs(value=params['table'][rows.tokens])


def make_batch(users, kinds=range(KINDS)):
  """A group of each user, with a trajectory of each kind.

  Users of even number prefer later kinds, those of odd number earlier ones.
  """
  kinds = list(kinds)
  own = [u for u in users for _ in kinds]
  kind = [k for _ in users for k in kinds]
  reward = [
    float(k if u % 2 == 0 else -k) for u, k in zip(own, kind, strict=True)
  ]
  batch = Batch.from_turns(
    [[[k]] for k in kind],
    [[[0.0]] for _ in kind],
    reward=[[x] for x in reward],
    group=own,
  )
  terms = {'user': jnp.asarray(own, jnp.float32)[:, None]}
  batch = batch.replace(turns=batch.turns.replace(terms=terms))
  return registry.bind('curate', 'every_pair', {})(batch), np.array(reward)


def signal(latents=LATENTS, **hp):
  hp = {'users': USERS, 'kl': 0.001} | hp
  context = Context({'reward': Module({}, apply)}, {'reward': RULE}, 2)
  return lib.latent_reward(context, latents=latents, **hp)


def make_state(latents=LATENTS, seed=0):
  shape = KINDS, 1 + 3 * latents
  table = 0.1 * np.random.default_rng(seed).normal(size=shape)
  params = {'reward': {'table': jnp.asarray(table, jnp.float32)}}
  opt = {'reward': optimizer.init(RULE, params['reward'])}
  state = states.state(params=params, opt=opt)
  return begun(state, latents)


def begun(state, latents=LATENTS):
  return state.replace(signal={lib.NAME: signal(latents).init()})


def learned(latents=LATENTS):
  """The model after the pairs of users 0 to 7."""
  batch, _ = make_batch(range(8))
  update = jax.jit(signal(latents).update)
  state = make_state(latents)
  for step in range(120):
    state = state.replace(step=jnp.int32(step))
    state, told = update(state, batch, {}, None)
  return begun(state, latents), told


def accuracy(state, user, latents=LATENTS):
  """Share of all pairs of a user in the right order."""
  batch, reward = make_batch([user])
  fields, _ = signal(latents, steps=0).score(state, batch, {})
  r = np.asarray(fields[f'{lib.NAME}.return'])[:, 0]
  above = reward[:, None] > reward[None]
  right = (r[:, None] > r[None]) + 0.5 * (r[:, None] == r[None])
  return float(np.mean(right[above]))


def told_by(state, user, kinds, latents=LATENTS, **hp):
  """The state after a user has labelled a pair of two kinds."""
  batch, _ = make_batch([user], kinds)
  return signal(latents, steps=0, **hp).update(state, batch, {}, None)[0]


@pytest.mark.slow
def test_one_pair_of_a_new_user_reveals_what_it_likes():
  """Of kinds that it has not compared, too; nobody is mistaken for another."""
  state, _ = learned()
  for user in (8, 9):
    knows = told_by(state, user, (0, 1))
    assert accuracy(knows, user) == 1.0
    assert accuracy(knows, user + 2) == accuracy(state, user + 2)
  before = [accuracy(state, user) for user in (8, 9)]
  assert sum(before) == pytest.approx(1.0)  # without labels: one for everyone


@pytest.mark.slow
def test_without_latents_one_reward_is_for_everyone():
  """The idea taken out: what is right of one is wrong of the other."""
  state, _ = learned(latents=0)
  each = []
  for user in (8, 9):
    knows = told_by(state, user, (0, 1), latents=0)
    each.append(accuracy(knows, user, latents=0))
  assert sum(each) == pytest.approx(1.0)


@pytest.mark.slow
def test_pairs_that_were_not_shown_are_predicted():
  _, told = learned()
  right, n = told[f'{lib.NAME}/pair_accuracy']
  assert 0 < float(n) < 8 * 6
  assert float(right) == float(n)
  _, told = learned(latents=0)
  right, n = told[f'{lib.NAME}/pair_accuracy']
  assert float(right) < 0.8 * float(n)


def test_evidence_adds_up_whatever_its_order():
  batch, _ = make_batch([0, 1, 5])
  r = np.random.default_rng(2)
  b = batch.outcome.shape[0]
  heads = lib.Heads(r.normal(size=b), *(r.normal(size=(3, b, LATENTS))))
  pairs = batch.pairs
  user = np.repeat([0, 1, 5], KINDS)[np.asarray(pairs.win[:, 0])]
  weight = np.asarray(pairs.weight) * (r.random(len(user)) < 0.7)
  got = lib.evidence(
    jax.tree.map(jnp.asarray, heads),
    batch,
    jnp.asarray(user),
    jnp.asarray(weight, jnp.float32),
    USERS,
  )
  tells, precision = np.zeros((2, USERS, LATENTS))
  for p in np.flatnonzero(weight):
    i, j = int(pairs.win[p, 0]), int(pairs.lose[p, 0])
    tells[user[p]] += heads.tells[i] - heads.tells[j]
    precision[user[p]] += np.exp((heads.surely[i] + heads.surely[j]) / 2)
  np.testing.assert_allclose(got.tells, tells, atol=1e-5)
  np.testing.assert_allclose(got.precision, precision, rtol=1e-5)
  assert int(got.pairs.sum()) == int(weight.sum())
  mean, sure = lib.posterior(got)
  np.testing.assert_allclose(mean, tells / (1 + precision), atol=1e-5)
  np.testing.assert_array_equal(mean[2], 0)  # who has labelled nothing
  np.testing.assert_array_equal(sure[2], 1)


def test_the_divergence_is_the_integral():
  mean, precision = np.array([[0.3, -1.2]]), np.array([[1.0, 4.0]])
  want = 0.0
  for m, p in zip(mean[0], precision[0], strict=True):
    q = stats.norm(m, p**-0.5)
    ratio = lambda z, q=q: q.pdf(z) * (q.logpdf(z) - stats.norm.logpdf(z))  # noqa: E731
    want += integrate.quad(ratio, m - 9, m + 9)[0]
  got = lib.divergence(jnp.asarray(mean), jnp.asarray(precision))
  np.testing.assert_allclose(got, [want], rtol=1e-5)
  zero = lib.divergence(jnp.zeros((1, 2)), jnp.ones((1, 2)))
  np.testing.assert_array_equal(zero, [0.0])


@pytest.mark.slow
def test_a_frozen_model_asks_for_so_many_labels_and_no_more():
  state = make_state()
  parameters = state.params
  once = told_by(state, 4, range(KINDS), labels=4)
  assert int(once.signal[lib.NAME].pairs[4]) == 4  # of six
  twice = told_by(once, 4, range(KINDS), labels=4)
  for x, y in zip(once.signal[lib.NAME], twice.signal[lib.NAME], strict=True):
    np.testing.assert_array_equal(x, y)
  some = told_by(told_by(state, 4, (0, 1), labels=4), 4, (1, 2), labels=4)
  assert int(some.signal[lib.NAME].pairs[4]) == 2
  assert int(some.signal[lib.NAME].pairs.sum()) == 2
  assert once.params is parameters


def in_turn(whose, group, win, live):
  """Places of a user's pairs: each next one of the group that had the fewest.

  Of a group the winner that had the fewest; then the first.
  """
  out, left = {}, set(np.flatnonzero(live))
  for user in {*whose[live].tolist()}:
    had, won, order = {}, {}, []
    while mine := [p for p in sorted(left) if whose[p] == user]:
      p = min(
        mine,
        key=lambda p: (had.get(group[p], 0), won.get((group[p], win[p]), 0), p),
      )
      had[group[p]] = had.get(group[p], 0) + 1
      won[group[p], win[p]] = won.get((group[p], win[p]), 0) + 1
      order.append(p)
      left.remove(p)
    out |= {p: i for i, p in enumerate(order)}
  return out


def tasks_of(users, groups):
  """A batch in which each user has groups, of all kinds each."""
  batch, _ = make_batch([u for u in users for _ in range(groups)])
  group = np.arange(len(users) * groups).repeat(KINDS)
  batch = batch.replace(ids={**batch.ids, 'group': jnp.asarray(group)})
  return registry.bind('curate', 'every_pair', {})(batch)


@pytest.mark.slow
@pytest.mark.parametrize('labels', [1, 3, 7, 100])
def test_labels_are_of_as_many_groups_as_there_are(labels):
  batch = tasks_of([4, 7], 3)
  pairs = jax.tree.map(np.asarray, batch.pairs)
  win, live = pairs.win[:, 0], pairs.weight > 0
  group = np.asarray(batch.ids['group'])[win]
  whose = np.asarray(batch.turns.terms['user'])[:, 0].astype(int)[win]
  places = in_turn(whose, group, win, live)
  state = make_state(seed=3)
  known = signal(steps=0, labels=labels).update(state, batch, {}, None)[0]
  table = np.asarray(state.params['reward']['table'])
  want = np.zeros((USERS, LATENTS))
  for p, place in places.items():
    if place < labels:
      kinds = win[p] % KINDS, pairs.lose[p, 0] % KINDS
      tells = [table[k, 1 + LATENTS : 1 + 2 * LATENTS] for k in kinds]
      want[whose[p]] += tells[0] - tells[1]
  got = known.signal[lib.NAME]
  np.testing.assert_allclose(got.tells, want, atol=1e-6)
  assert int(got.pairs[4]) == min(labels, 3 * KINDS * (KINDS - 1) // 2)
  first = [p for p, place in places.items() if place < 3]
  assert len({group[p] for p in first}) == len(first)  # a pair of each


@pytest.mark.slow
@pytest.mark.parametrize('number', [USERS, 3e9, -1.0, np.nan])
def test_a_stranger_is_not_taken_for_another_user(number):
  batch, _ = make_batch([3, USERS - 1, 0])
  user = np.array(batch.turns.terms['user'])
  user[KINDS:] = np.where(user[KINDS:] == 0, 0, number)
  terms = {'user': jnp.asarray(user)}
  batch = batch.replace(turns=batch.turns.replace(terms=terms))
  state = make_state()
  table = np.array(state.params['reward']['table'])
  state = signal(steps=0).update(state, batch, {}, None)[0]
  pairs = np.zeros(USERS)
  pairs[[0, 3]] = KINDS * (KINDS - 1) // 2
  np.testing.assert_array_equal(state.signal[lib.NAME].pairs, pairs)
  fields, _ = signal(steps=0).score(state, batch, {})
  r = np.asarray(fields[f'{lib.NAME}.return'])[KINDS : 2 * KINDS, 0]
  np.testing.assert_allclose(r, table[:, 0], atol=1e-6)  # of the prior


def test_numbers_of_users_must_fit():
  c = vpl.get_config('tiny')
  c.hp.signal[lib.NAME].users = 17
  validate.config(c)
  c.hp.signal[lib.NAME].users = 16
  with errors.raises(ValueError, f'hp.signal.{lib.NAME}.users env.first 17 16'):
    validate.config(c)


@pytest.mark.slow
def test_a_precision_has_bounds():
  """Outside of them nothing overflows, and nothing is pushed further."""
  batch, _ = make_batch([0, 1])
  state = make_state()
  table = state.params['reward']['table'].at[:, -LATENTS:].set(95.0)
  state = state.replace(params={'reward': {'table': table}})
  after, told = jax.jit(signal().update)(state, batch, {}, None)
  moved = np.asarray(after.params['reward']['table'])
  assert np.isfinite(moved).all()
  assert np.isfinite(float(told[f'{lib.NAME}/kl'][0]))
  assert (moved[:, :-LATENTS] != table[:, :-LATENTS]).any()
  pairs = KINDS * (KINDS - 1) // 2
  got = after.signal[lib.NAME].precision[0]
  np.testing.assert_allclose(got, pairs * np.e, rtol=1e-6)


@pytest.mark.slow
def test_a_model_that_learns_forgets_the_labels_of_before():
  """They were read by another network."""
  state = told_by(make_state(), 7, range(KINDS))
  batch, _ = make_batch([0])
  state, _ = signal().update(state, batch, {}, None)
  assert int(state.signal[lib.NAME].pairs[7]) == 0
  assert int(state.signal[lib.NAME].pairs[0]) == 6


def test_heads_must_fit_latents():
  c = vpl.get_config('tiny')
  c.role.reward.heads = 1
  with errors.raises(ValueError, 'role.reward.heads latents 7 1'):
    validate.config(c)


def test_vpl_learns_of_many_users_and_then_serves_one():
  c = vpl.get_config('tiny')
  validate.config(c)
  plans = {x.name: x.config for x in stages.plans(c)}
  assert [*plans] == ['sft', 'judge', 'rl']
  judge, rl = plans['judge'], plans['rl']
  steps = [x.hp['signal'][lib.NAME]['steps'] for x in (judge, rl)]
  assert steps == [1, 0]
  seen, new = (
    set(range(x.env.first, x.env.first + x.env.users)) for x in (judge, rl)
  )
  assert len(new) == 1
  assert not seen & new
  assert max(seen | new) < rl.hp['signal'][lib.NAME]['users']
  assert judge.minibatch == 'none'
  registry.check(base.wiring(judge), judge)
