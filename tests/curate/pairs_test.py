"""Which trajectories and turns are compared with which."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import agentrl.advantage
import agentrl.curate  # noqa: F401  both register their pieces
from agentrl import registry
from tests import batches
from tests.advantage import unscored

pytestmark = pytest.mark.usefixtures('float64')


def make_story():
  """Groups of six; group 1 is constant, returns of group 2 come in ties."""
  s = batches.story(seed=4, groups=3, members=6, turns=3)
  for i, g in enumerate(s.group):
    if g == 2:
      tied = [0.0] * len(s.reward[i])
      tied[-1] = float(i % 3)
      s.reward[i][:] = tied
  return s


STORY = make_story()
OUT = 3  # a trajectory whose judge failed


def pairs_of(name, **hp):
  """{(win, lose): weight} of the pairs that count."""
  laid = batches.lay(STORY, padding=2)
  batch = unscored.turns(laid.batch, OUT)
  batch = jax.tree.map(jnp.asarray, batch)
  pairs = jax.jit(registry.bind('curate', name, hp))(batch).pairs
  out = {}
  for win, lose, weight in zip(
    *map(np.asarray, (pairs.win, pairs.lose, pairs.weight)), strict=True
  ):
    if weight:
      assert (tuple(win), tuple(lose)) not in out
      out[(*map(int, win),), (*map(int, lose),)] = float(weight)
  return out


def groups():
  """Members of each group that count, best first, earlier ones of ties."""
  live = [i for i in range(len(STORY.group)) if i != OUT]
  total = [sum(x) for x in STORY.reward]
  out = {}
  for i in sorted(live, key=lambda i: (-total[i], i)):
    out.setdefault(STORY.group[i], []).append(i)
  return out, total


def clear(a, b, margin=0.0):
  return a - b > max(margin, 1e-9)


@pytest.mark.parametrize('most', [1, 2, 9])
def test_opposite_ranks(most):
  ranked, total = groups()
  want = {}
  for members in ranked.values():
    n = len(members)
    for r in range(min(most, n // 2)):
      win, lose = members[r], members[n - 1 - r]
      if clear(total[win], total[lose], 0.1):
        want[(win, -1), (lose, -1)] = 1.0
  assert pairs_of('opposite_ranks', most=most, margin=0.1) == want
  assert len(want) >= 2


def test_every_pair_is_all_that_differ():
  ranked, total = groups()
  want = {
    ((i, -1), (j, -1)): 1.0
    for members in ranked.values()
    for i in members
    for j in members
    if clear(total[i], total[j], 0.5)
  }
  assert pairs_of('every_pair', margin=0.5, most=50) == want
  assert len(want) > 12


def test_every_pair_takes_the_worst_first():
  got = pairs_of('every_pair', most=1)
  ranked, total = groups()
  worst = {g: min(total[i] for i in members) for g, members in ranked.items()}
  for (win, _), (lose, _) in got:
    assert total[lose] == worst[STORY.group[win]]
  assert 2 < len(got) <= len(STORY.group)


def test_the_outcome_may_be_compared():
  for (win, _), (lose, _) in pairs_of('opposite_ranks', score='outcome'):
    mates = [
      STORY.outcome[i]
      for i, g in enumerate(STORY.group)
      if g == STORY.group[win] and i != OUT
    ]
    assert STORY.outcome[win] == max(mates)
    assert STORY.outcome[lose] == min(mates)


def test_turns_of_one_state():
  gamma, cells = 0.5, {}
  for i, rewards in enumerate(STORY.reward):
    for k in range(len(rewards)):
      value = sum(gamma ** (j - k) * rewards[j] for j in range(k, len(rewards)))
      if i != OUT:
        cell = STORY.group[i], STORY.state[i][k]
        cells.setdefault(cell, []).append((value, (i, k)))
  want = {}
  for members in cells.values():
    high, low = max(x[0] for x in members), min(x[0] for x in members)
    if clear(high, low, 0.2):
      # Of equal values the first wins and the last loses.
      win = next(at for x, at in members if x == high)
      lose = [at for x, at in members if x == low][-1]
      want[win, lose] = 1.0
  assert pairs_of('same_state', gamma=gamma, margin=0.2) == want
  assert len(want) > 4


def test_copies_of_a_turn_are_not_compared():
  """Branches share it: the same message would win and lose."""
  laid = batches.lay(STORY)
  turns = laid.batch.turns
  batch = laid.batch.replace(
    turns=turns.replace(node=np.zeros_like(turns.node))
  )
  batch = jax.tree.map(jnp.asarray, batch)
  pairs = jax.jit(registry.bind('curate', 'same_state', {}))(batch).pairs
  assert not np.asarray(pairs.weight).any()
