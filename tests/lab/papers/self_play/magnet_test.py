"""Where a magnet holds self-play, against plain rules of Kuhn poker."""

import functools

import numpy as np
import pytest

from agentrl.env.jit import base
from agentrl.env.jit.games import kuhn, tree
from agentrl.lab.papers.self_play import magnet
from tests import errors
from tests.env.jit.games import plain

DEALS = range(len(plain.KUHN_DEALS))


@functools.cache
def game():
  return tree.build(kuhn.Kuhn())


def value(policy, deal, moves):
  """Of both seats, in plain Python."""
  seat, legal = plain.kuhn(deal, moves)
  if not isinstance(legal, list):
    return np.array([seat, legal])
  p = policy[plain.KUHN_DEALS[deal][seat], moves]
  return sum(p[a] * value(policy, deal, (*moves, a)) for a in legal)


def reference(policy):
  """q of every information set, {(card, moves): [2]}, deal by deal."""
  total, weight = {}, {}

  def go(deal, moves, chance):
    seat, legal = plain.kuhn(deal, moves)
    if not isinstance(legal, list):
      return
    at = plain.KUHN_DEALS[deal][seat], moves
    q = [value(policy, deal, (*moves, a))[seat] for a in legal]
    others = chance[1 - seat]
    total[at] = total.get(at, 0) + others * np.array(q)
    weight[at] = weight.get(at, 0) + others
    for a in legal:
      after = list(chance)
      after[seat] *= policy[at][a]
      go(deal, (*moves, a), after)

  for deal in DEALS:
    go(deal, (), [1.0, 1.0])
  return {at: total[at] / weight[at] for at in total}


def named(table):
  """Rows of a table [I, A] by card and moves, as an information set reads."""
  rules = kuhn.Kuhn()
  names = [
    (text[0], text[1:-1])
    for text in (base.render_text(rules, x) for x in game().obs)
  ]
  cards = {c: i for i, c in enumerate('JQK')}
  return {
    (cards[card], tuple('pb'.index(m) for m in moves)): row
    for (card, moves), row in zip(names, table, strict=True)
  }


def test_action_values_are_those_of_plain_rules():
  rng = np.random.default_rng(0)
  policy = rng.dirichlet([1.0, 1.0], len(game().seat))
  want = reference(named(policy))
  got = named(magnet.action_values(game(), policy))
  assert got.keys() == want.keys()
  for at, q in got.items():
    np.testing.assert_allclose(q, want[at], atol=1e-12)


def test_it_rests_where_gradients_are_zero_and_less_pull_leaves_less():
  left = []
  for alpha in (1.0, 0.3):
    policy = magnet.equilibrium(game(), alpha)
    q = reference(named(policy))
    for at, p in named(policy).items():
      pull = np.exp(q[at] / alpha)
      np.testing.assert_allclose(p, pull / pull.sum(), atol=1e-6)
    left.append(tree.exploitability(game(), policy))
  assert 0.02 < left[1] < left[0] < 0.458
  assert left[1] == pytest.approx(0.069, abs=5e-4)


def test_what_cannot_be_computed_is_refused():
  with errors.raises(ValueError, 'alpha 0.0'):
    magnet.equilibrium(game(), 0.0)
