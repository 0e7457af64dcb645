"""Conversations against an agent that reads them one sentence at a time."""

import numpy as np
import pytest

from agentrl.lab.papers.attribution import conversations as lib

RNG = np.random.default_rng
MAKERS = {
  **{w: (lambda n, rng, w=w: lib.of_world(w, n, rng)) for w in lib.WORLDS},
  'any': lib.any_world,
}


def said(tokens):
  """What is stated of the goal's subject: (turn, sentence, value)."""
  subject = tokens[0] - lib.GOAL
  for k in range(lib.K):
    assert tokens[lib.at(k)] == tokens[0]  # the goal, repeated
    for m in range(lib.M):
      who, value = divmod(int(tokens[lib.at(k, m)]), lib.VALUES)
      if who == subject:
        yield k, m, value


@pytest.mark.parametrize('name', MAKERS)
def test_actions_and_causes_are_those_of_what_is_said(name):
  x = MAKERS[name](60, RNG(0))
  assert x.tokens.shape == (60, lib.T)
  for tokens, action, cause in zip(*x, strict=True):
    stated = list(said(tokens))
    want = np.full(lib.K + 1, lib.SEARCH)
    for k, _, value in stated:
      want[k + 1 :] = value
    assert action.tolist() == want.tolist()
    planted = []  # from the last statement back to one that says otherwise
    for k, m, value in reversed(stated):
      if value != action[-1]:
        break
      planted.append([k, m])
    assert np.argwhere(cause).tolist() == planted[::-1]


@pytest.mark.parametrize('world', lib.WORLDS)
def test_a_world_says_its_values_in_their_order(world):
  order = lib.WORLDS[world]
  for tokens in lib.of_world(world, 40, RNG(1)).tokens:
    turns, _, values = zip(*said(tokens), strict=True)
    assert len(set(turns)) == len(order)
    assert [x == values[order.index(0)] for x in values] == [
      x == 0 for x in order
    ]
    if world == 'last':
      assert turns == (lib.K - 1,)
