"""Exploitability against enumeration in plain Python, and published values."""

import json

import jax
import numpy as np
import pytest

from agentrl.env.jit.games import kuhn, leduc, lines, tree
from agentrl.runtime import install
from tests import errors
from tests.env.jit.games import openspiel_numbers, plain
from tests.env.jit.games.openspiel_numbers import RANDOM


@pytest.fixture(scope='module')
def trees():
  return {'kuhn': tree.build(kuhn.Kuhn()), 'leduc': tree.build(leduc.Leduc())}


def seen_kuhn(deal, moves, seat):
  return plain.KUHN_DEALS[deal][seat], tuple(moves)


def known(name, obs):
  """What an observation of the tree says, as the plain rules name it."""
  x = [int(i) for i in obs if i >= 0][:-1]
  if name == 'kuhn':
    return x[0], tuple(i - 3 for i in x[1:])
  shown = [i - 6 for i in x[1:] if i >= 6]
  moves = tuple(i - 3 for i in x[1:] if i < 6)
  return x[0], (shown[0] if shown else None), moves


GAMES = {
  'kuhn': (plain.kuhn, plain.KUHN_DEALS, seen_kuhn),
  'leduc': (plain.leduc, plain.LEDUC_DEALS, plain.leduc_seen),
}
RULES = {'kuhn': kuhn.Kuhn(), 'leduc': leduc.Leduc()}


def drawn(name, t, seed=0):
  """A random policy: for the tree, and for the plain rules."""
  rng = np.random.default_rng(seed)
  policy = rng.dirichlet(np.ones(t.legal.shape[1]), len(t.legal)) * t.legal
  policy /= policy.sum(axis=1, keepdims=True)
  table = {
    (int(t.seat[i]), *known(name, obs)): policy[i][t.legal[i]]
    for i, obs in enumerate(t.obs)
  }
  assert len(table) == len(policy)
  return policy, lambda x, seat, legal: table[(seat, *x)]


@pytest.mark.parametrize('name', ['kuhn', 'leduc'])
def test_exploitability_is_that_of_enumeration(trees, name):
  t = trees[name]
  rules, deals, seen = GAMES[name]
  policy, played = drawn(name, t)
  both = plain.best_and_played(rules, deals, seen, played)
  best, played = np.array(both).T
  np.testing.assert_allclose(tree.values(t, policy), played, rtol=1e-12)
  for seat in (0, 1):
    got = tree.best_response(t, policy, seat)
    np.testing.assert_allclose(got, best[seat], rtol=1e-12)
  want = np.mean(best - played)
  np.testing.assert_allclose(tree.exploitability(t, policy), want, rtol=1e-12)


def test_published_values(trees):
  """Uniform play, and the equilibrium, at which seat 0 loses 1/18 a match."""
  k, le = trees['kuhn'], trees['leduc']
  assert len(k.seat) == 12
  assert len(le.seat) == 288
  np.testing.assert_allclose(
    tree.exploitability(k, tree.uniform(k)), 0.4583333333, atol=1e-9
  )
  np.testing.assert_allclose(
    tree.exploitability(le, tree.uniform(le)), 2.3736111111, atol=1e-9
  )
  rules = kuhn.Kuhn()
  shape = jax.tree.structure(rules.deal(0))
  states = jax.tree.unflatten(shape, k.game)
  policy = jax.vmap(lambda s: kuhn.optimal(rules, s))(states)
  np.testing.assert_allclose(tree.exploitability(k, policy), 0, atol=1e-7)
  np.testing.assert_allclose(
    tree.values(k, policy), [-1 / 18, 1 / 18], atol=1e-7
  )


@pytest.mark.parametrize('name', ['kuhn', 'leduc'])
def test_pay_against_an_opponent_is_that_of_enumeration(trees, name):
  t = trees[name]
  policy, mine = drawn(name, t)
  other, theirs = drawn(name, t, seed=1)
  want = plain.paid(*GAMES[name], mine, theirs)
  assert abs(want) > 1e-3
  np.testing.assert_allclose(tree.pay(t, policy, other), want, rtol=1e-12)
  np.testing.assert_allclose(tree.pay(t, other, policy), -want, rtol=1e-12)
  own = RULES[name].opponents
  assert own.keys() == plain.OPPONENTS[name].keys()
  for opponent, player in own.items():
    moves = tree.tabulated(t, RULES[name], player)
    want = plain.paid(*GAMES[name], mine, plain.OPPONENTS[name][opponent])
    np.testing.assert_allclose(tree.pay(t, policy, moves), want, atol=1e-7)


@pytest.mark.parametrize('name', ['kuhn', 'leduc'])
def test_no_opponent_wins_against_a_best_response_nor_an_equilibrium(
  trees, name
):
  """And uniform play loses to some of them: the numbers tell policies apart."""
  t, rules = trees[name], RULES[name]
  them = {
    x: tree.tabulated(t, rules, player) for x, player in rules.opponents.items()
  }
  uniform = {x: tree.pay(t, tree.uniform(t), y) for x, y in them.items()}
  for x, moves in them.items():
    best = np.mean([tree.best_response(t, moves, seat) for seat in (0, 1)])
    assert best >= max(uniform[x], 0) - 1e-9
  assert uniform['uniform'] == pytest.approx(0, abs=1e-12)
  assert min(uniform.values()) < -0.05
  if 'equilibrium' in them:
    pays = {x: tree.pay(t, them['equilibrium'], y) for x, y in them.items()}
    assert min(pays.values()) > -1e-7
    assert pays['uniform'] > 0.05


@pytest.mark.parametrize('policy', [openspiel_numbers.UNIFORM, *RANDOM])
@pytest.mark.parametrize('name', ['kuhn', 'leduc'])
def test_exploitability_is_that_of_openspiel(trees, name, policy):
  """By the numbers that openspiel_numbers.py has written."""
  t, theirs = trees[name], json.loads(openspiel_numbers.FILE.read_text())
  table = np.zeros(t.legal.shape)
  for row, legal, seat, obs in zip(table, t.legal, t.seat, t.obs, strict=True):
    *cards, moves = known(name, obs)
    cards = [x for x in cards if x is not None]
    said, (may,) = ''.join(map(str, moves)), np.nonzero(legal)
    row[may] = openspiel_numbers.drawn(policy, int(seat), cards, said, may)
  got = tree.exploitability(t, table)
  np.testing.assert_allclose(got, theirs[name][policy], atol=1e-9)


def test_the_numbers_are_those_of_the_openspiel_that_is_installed():
  pytest.importorskip('pyspiel', reason=install.command('parity'))
  theirs = json.loads(openspiel_numbers.FILE.read_text())
  made = openspiel_numbers.made()
  for name in openspiel_numbers.GAMES:
    assert made[name] == pytest.approx(theirs[name], abs=1e-9)


def test_what_is_no_policy_is_refused(trees):
  t = trees['leduc']
  for wrong, names in (
    (tree.uniform(t) / 2, 'sum 0.5'),
    (np.ones_like(t.legal) / 3, 'illegal'),
    (tree.uniform(t)[1:], 'policy'),
  ):
    with errors.raises(ValueError, names):
      tree.exploitability(t, wrong)


def test_a_large_game_is_refused(monkeypatch):
  monkeypatch.setattr(tree, 'LARGEST', 500)
  with errors.raises(ValueError, 'tic_tac_toe 500'):
    tree.build(lines.TIC_TAC_TOE)
