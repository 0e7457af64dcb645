"""Games on a sum against plain rules, over all deals and all moves."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.env.jit import base as env_base
from agentrl.env.jit.games import base, family, sums

LARGEST = 3
MAKES = {
  '+': lambda x, y: x + y,
  '-': lambda x, y: x - y,
  '*': lambda x, y: x * y,
}
DEALS = [
  (x, y, MAKES[sign](x, y))
  for x in range(1, LARGEST + 1)
  for y in range(1, LARGEST + 1)
  for sign in '+-*'
]


def right(deal, answer):
  x, y, target = deal
  return MAKES[answer](x, y) == target


def verified(deal, moves, tries):
  """Plain rules: (seat to move, its moves), or the returns of both seats."""
  answers, verdicts = moves[::2], moves[1::2]
  if 'y' in verdicts or len(moves) == 2 * tries - 1:
    true = [
      (v == 'y') == right(deal, a)
      for a, v in zip(answers, verdicts, strict=False)
    ]
    return float(right(deal, answers[-1])), sum(true) / len(true)
  seat = len(moves) % 2
  return seat, 'yn' if seat else '+-*'


def observed(deal, moves):
  """Plain rules: as `verified`, of a pioneer and an observer."""
  if len(moves) == 2:
    both = float(sum(right(deal, a) for a in moves))
    return both, both
  return len(moves), '+-*'


def lines(rules, deal, moves=()):
  """All ways to play, each as the moves up to its end."""
  _, legal = rules(deal, moves)
  if not isinstance(legal, str):
    return [moves]
  return [x for a in legal for x in lines(rules, deal, (*moves, a))]


CASES = {
  'two tries': (
    sums.SolverVerifier(LARGEST, 2),
    lambda deal, moves: verified(deal, moves, 2),
  ),
  'three tries': (
    sums.SolverVerifier(LARGEST, 3),
    lambda deal, moves: verified(deal, moves, 3),
  ),
  'observer': (sums.PioneerObserver(LARGEST), observed),
}


@pytest.mark.parametrize('name', list(CASES))
def test_every_match_is_that_of_plain_rules(name):
  rules, plain = CASES[name]
  assert rules.deals == len(DEALS)
  every = [(n, x) for n, d in enumerate(DEALS) for x in lines(plain, d)]
  length = rules.length
  moves = np.full((len(every), length), -1)
  for i, (_, x) in enumerate(every):
    moves[i, : len(x)] = [rules.actions.index(a) for a in x]

  def match(number, moves):
    def tell(state):
      return dict(
        over=rules.over(state),
        seat=rules.seat(state),
        legal=rules.legal(state),
        returns=rules.returns(state),
        seen=rules.observe(state, 0),
      )

    def ply(state, move):
      now = tell(state)
      new = rules.play(state, jnp.maximum(move, 0))
      keep = lambda new, old: jnp.where(move >= 0, new, old)  # noqa: E731
      return jax.tree.map(keep, new, state), now

    state, seen = jax.lax.scan(ply, rules.deal(number), moves)
    return seen, tell(state)

  deals = jnp.array([n for n, _ in every])
  seen, last = jax.device_get(
    jax.jit(jax.vmap(match))(deals, jnp.asarray(moves))
  )
  for i, (n, x) in enumerate(every):
    x_, y, target = DEALS[n]
    for ply in range(len(x)):
      seat, legal = plain(DEALS[n], x[:ply])
      assert not seen['over'][i, ply]
      assert not seen['returns'][i, ply].any()
      assert seen['seat'][i, ply] == seat
      own = np.array(rules.actions)[seen['legal'][i, ply]]
      assert ''.join(own) == legal
      text = env_base.render_text(rules, seen['seen'][i, ply])
      assert text == f'{x_} {y}={target}{"".join(x[:ply])}\n'
    assert last['over'][i]
    np.testing.assert_allclose(last['returns'][i], plain(DEALS[n], x))


def test_an_observer_has_won_by_its_own_answer():
  env = family.PioneerObserver(largest=LARGEST).env()
  for a, b in itertools.product(range(3), range(3)):
    state, _ = env.reset(jax.random.key(0), {'deal': np.int32(0)})
    for move in (a, b):
      state = env.step(state, jnp.int32(move), jax.random.key(0))[0]
    got = [right(DEALS[0], '+-*'[move]) for move in (a, b)]
    np.testing.assert_array_equal(env.wins(state), got)
    np.testing.assert_array_equal(env.returns(state), [sum(got)] * 2)


def test_nobody_gains_where_an_answer_cannot_be_read():
  env = family.SolverVerifier().env()
  state, _ = env.reset(jax.random.key(0), {'deal': np.int32(0)})
  verdict = env.actions.index('y')  # of the solver, which has none
  state = env.step(state, jnp.int32(verdict), jax.random.key(0))[0]
  assert env.over(state)
  np.testing.assert_array_equal(env.returns(state), [-0.5, 0])
  np.testing.assert_array_equal(env.wins(state), [0, 0])
  assert base.Match(env.rules).forfeits == (
    base.FORFEITED,
    base.WON_BY_FORFEIT,
  )
