"""Coopetition against NumPy, closed forms and exact best responses."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.configs import coopetition_gym
from agentrl.env import base as families
from agentrl.env.jit import base as env_base
from agentrl.env.jit.games import base, coopetition, family, tree
from agentrl.env.jit.games.coopetition import Coopetition

MODES = coopetition.MODES
SYMMETRIC = [
  (i, gamma / 10, one / 10)
  for i, (gamma, one, other) in enumerate(coopetition.DEALS)
  if one == other
]


def payoffs(a, gamma):
  """Private payoffs less the endowment, by the paper's formula."""
  a = np.asarray(a, np.float64)
  return -a + 20 * np.log(1 + a) + 0.5 * gamma * np.sqrt(a[0] * a[1])


def played(mode, deal, moves):
  rules = Coopetition(mode)
  state = rules.deal(jnp.int32(deal))
  for move in moves:
    state = rules.play(state, jnp.int32(move))
  return rules, state


@pytest.mark.parametrize('mode', MODES)
def test_utilities_are_those_of_the_formula(mode):
  """Asymmetric deals, all levels of both seats."""
  for deal in (0, 5, 7, 15, 26):
    gamma, *depends = coopetition.DEALS[deal]
    weight = {'private': [0, 0], 'cooperative': [1, 1]}.get(
      mode, [x / 10 for x in depends]
    )
    rules, state = played(mode, deal, ())
    table = rules.utilities(state)
    for first, second in itertools.product(range(10), range(10)):
      pi = payoffs([5 * first, 5 * second], gamma / 10)
      want = (pi + np.array(weight) * pi[::-1]) / 50
      np.testing.assert_allclose(table[:, first, second], want, atol=1e-6)
    got = played(mode, deal, (3, 8))
    np.testing.assert_allclose(got[0].returns(got[1]), table[:, 3, 8])


def test_a_match_is_two_moves_and_earns_at_its_end():
  rules, state = played('private', 0, (4,))
  assert not rules.over(state)
  assert not rules.returns(state).any()
  assert int(rules.seat(state)) == 1
  rules, state = played('private', 0, (4, 5))
  assert rules.over(state)


def test_the_other_move_is_not_seen_and_dependence_is_told_from_each_side():
  rules = Coopetition()
  texts = set()
  for move in range(10):
    _, state = played('integrated', 5, (move,))  # synergy 1, D 4 and 8
    texts.add(env_base.render_text(rules, rules.observe(state, jnp.int32(1))))
  assert texts == {'1 84\n'}
  first = rules.observe(rules.deal(jnp.int32(5)), jnp.int32(0))
  assert env_base.render_text(rules, first) == '1 48\n'


@pytest.fixture(scope='module')
def trees():
  return {mode: tree.build(Coopetition(mode)) for mode in MODES}


def oracle(t, rules):
  """The policy [I, A] of `optimal`."""
  state = rules.deal(jnp.int32(0))
  states = jax.tree.unflatten(jax.tree.structure(state), t.game)
  run = jax.jit(jax.vmap(lambda s: coopetition.optimal(rules, s)))
  return np.asarray(run(states), np.float64)


@pytest.mark.parametrize('mode', MODES)
def test_nobody_gains_by_leaving_the_equilibrium(trees, mode):
  t = trees[mode]
  policy = oracle(t, Coopetition(mode))
  assert tree.exploitability(t, policy) == pytest.approx(0, abs=1e-6)
  assert tree.exploitability(t, tree.uniform(t)) > 0.1
  # A level more or less in every set is worse.
  for shift in (-1, 1):
    assert tree.exploitability(t, np.roll(policy, shift, axis=1)) > 1e-4


@pytest.mark.parametrize('mode', MODES)
def test_equilibria_lie_beside_the_closed_form(trees, mode):
  """1 = theta / (1 + a) + (1 + w) gamma / 4 where both are alike."""
  rules = Coopetition(mode)
  for deal, gamma, depends in SYMMETRIC:
    w = {'private': 0.0, 'integrated': depends, 'cooperative': 1.0}[mode]
    exact = 20 / (1 - (1 + w) * gamma / 4) - 1
    level = int(jnp.argmax(coopetition.optimal(rules, rules.deal(deal))))
    assert abs(5 * level - exact) < 5


def test_whoever_is_paid_by_the_others_outcome_invests_more(trees):
  """And all together have more of it: private, integrated, cooperative."""
  levels, welfare = {}, {}
  for mode in MODES:
    rules = Coopetition(mode)
    policy = oracle(trees[mode], rules)
    levels[mode] = float((policy @ np.arange(10)).mean())
    welfare[mode] = float(tree.values(trees['private'], policy).sum())
  assert levels['private'] < levels['integrated'] < levels['cooperative']
  assert welfare['private'] < welfare['integrated'] < welfare['cooperative']


def test_a_seat_has_won_that_answered_best():
  rules = Coopetition('private')
  deal = jnp.int32(18)  # synergy .9, no dependence
  best = int(jnp.argmax(coopetition.optimal(rules, rules.deal(deal))))
  for moves, want in (((best, best), [1, 1]), ((0, best), [0, 0])):
    rules, state = played('private', 18, moves)
    won = rules.solved(state)
    if moves[0] == best:
      assert won.tolist() == want
    else:
      assert not won[0]  # the other may have answered a 0 best
  assert not rules.solved(rules.deal(deal)).any()


def test_columns_tell_what_was_invested_and_made():
  rules, before = played('private', 18, (9,))
  after = rules.play(before, jnp.int32(3))
  first = rules.info(rules.deal(jnp.int32(18)), before)
  assert (float(first['level']), float(first['welfare'])) == (1, 0)
  last = rules.info(before, after)
  assert float(last['level']) == pytest.approx(1 / 3)
  joint = payoffs([45, 15], 0.9).sum()
  best = max(
    payoffs([5 * x, 5 * y], 0.9).sum() for x in range(10) for y in range(10)
  )
  assert float(last['welfare']) == pytest.approx(joint / best, abs=1e-6)
  still = rules.info(after, after)  # no move was made
  assert not any(float(x) for x in still.values())


def test_the_family_plays_against_the_oracle():
  source = family.Coopetition(opponent='optimal', mode='cooperative')
  env = source.env()
  assert isinstance(env, base.Against)
  (task,) = source.tasks('test', 1, 0)
  state, _ = env.reset(jax.random.key(0), task.task)
  after, _, reward, done = env.step(state, jnp.int32(4), jax.random.key(1))
  assert done
  assert float(reward) > 0
  assert float(env.score(after)) in (0.0, 1.0)


def test_the_config_pays_by_interdependence():
  c = coopetition_gym.get_config()
  rules = families.of(c.env).env().rules
  state = played('integrated', 5, (3, 8))[1]  # D 4 and 8
  pi = payoffs([15, 40], 0.1)
  want = (pi + np.array([0.4, 0.8]) * pi[::-1]) / 50
  np.testing.assert_allclose(rules.returns(state), want, atol=1e-6)
