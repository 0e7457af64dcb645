"""Which trajectories and turns are compared with which."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import agentrl.advantage
import agentrl.curate  # noqa: F401  both register their pieces
from agentrl import registry
from tests import batches
from tests.advantage import search_values_test as trees
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


def test_the_order_of_a_group_is_its_preference():
  """Whatever its members are worth; who does not count is passed over."""
  members = {}
  for i, g in enumerate(STORY.group):
    if i != OUT:
      members.setdefault(g, []).append(i)
  several = [x for x in members.values() if len(x) > 1]
  want = {((a, -1), (b, -1)): 1.0 for a, b, *_ in several}
  assert pairs_of('as_listed') == want
  total = [sum(x) for x in STORY.reward]
  assert any(total[a] < total[b] for (a, _), (b, _) in want)


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


COMPARED = {
  'opposite_ranks': {'most': 2},
  'every_pair': {'most': 50},
  'ranked_factors': {'factors': ('worth',), 'most': 50},
  'same_state': {},
  'as_listed': {},
}


@pytest.mark.parametrize('name', COMPARED)
def test_of_several_agents_each_is_compared_with_itself(name):
  """As if groups were of one agent each."""
  batch = batches.lay(STORY, padding=2).batch
  turns, group = batch.turns, np.asarray(batch.ids['group'])
  turns = turns.replace(terms={'worth': turns.reward})
  agent = np.arange(len(group)) // 2 % 2

  def pairs(group, agent):
    agent = np.broadcast_to(agent[:, None], turns.valid.shape)
    made = batch.replace(
      ids={**batch.ids, 'group': group},
      turns=turns.replace(agent=np.asarray(agent, np.int32)),
    )
    bind = registry.bind('curate', name, COMPARED[name])
    got = jax.jit(bind)(jax.tree.map(jnp.asarray, made)).pairs
    on = np.asarray(got.weight) > 0
    return {
      (*map(int, a), *map(int, b))
      for a, b in zip(
        np.asarray(got.win)[on], np.asarray(got.lose)[on], strict=True
      )
    }

  none = np.zeros_like(agent)
  want = pairs(2 * group + agent, none)
  assert pairs(group, agent) == want
  assert len(want) > 2
  assert all(agent[i] == agent[j] for i, _, j, _ in want)
  assert pairs(group, none) != want


# Pairs of children of one node.


def of_nodes(made, margin, critique=None, alpha=0.5, most=16):
  """(win, lose) as nodes, by lists."""
  q = trees.walked(made)
  if critique is not None:
    q = alpha * q + (1 - alpha) * trees.walked(made, critique)
  node, valid = np.asarray(made.turns.node), np.asarray(made.turns.valid)
  parent, value = {}, {}
  for i, k in zip(*np.nonzero(valid), strict=True):
    above = node[i, k - 1] if k else -1 - int(made.ids['group'][i])
    parent[node[i, k]], value[node[i, k]] = above, q[i, k]
  return {
    (int(a), int(b))
    for a in parent
    for b in parent
    if parent[a] == parent[b] and value[a] - value[b] > margin + 1e-6
  }


def paired(made, **how):
  p = registry.bind('curate', 'node_pairs', how)(made).pairs
  node, live = np.asarray(made.turns.node), np.asarray(p.weight) > 0
  return [
    (int(node[a, k]), int(node[b, j]))
    for (a, k), (b, j) in zip(
      np.asarray(p.win)[live], np.asarray(p.lose)[live], strict=True
    )
  ]


@pytest.mark.parametrize('seed', range(2))
def test_node_pairs_are_siblings_of_unlike_value(seed):
  made = trees.grown(seed)
  got = paired(made, most=16, margin=0.2)
  assert len(got) == len(set(got)) > 2  # each once, whoever shares a turn
  assert set(got) == of_nodes(made, 0.2)


def test_children_that_are_turns_of_two_agents_are_not_compared():
  made = trees.grown(0)
  turns = made.turns
  two = made.replace(turns=turns.replace(agent=turns.node % 2))
  got = set(paired(two, most=16, margin=0.2))
  assert got == {(a, b) for a, b in of_nodes(made, 0.2) if a % 2 == b % 2}
  assert 0 < len(got) < len(of_nodes(made, 0.2))


@pytest.mark.parametrize('alpha', [0.3, 1.0])
def test_a_critique_is_mixed_into_what_a_search_found(alpha):
  made, critique = trees.grown(0), trees.scores(0)
  terms = {**made.turns.terms, 'said': jnp.asarray(critique)}
  made = made.replace(turns=made.turns.replace(terms=terms))
  got = paired(made, most=16, margin=0.2, alpha=alpha, critique=('said',))
  assert set(got) == of_nodes(made, 0.2, critique, alpha)
  alone = set(paired(made, most=16, margin=0.2))
  assert (set(got) == alone) == (alpha == 1.0)


def test_a_turn_is_paired_with_the_worst_of_its_siblings():
  made = trees.grown(2)
  every, one = (paired(made, margin=0.0, most=n) for n in (16, 1))
  q, node = trees.walked(made), np.asarray(made.turns.node)
  value = {int(x): q[i, k] for (i, k), x in np.ndenumerate(node) if x >= 0}
  assert len(one) == len({win for win, _ in every})
  for win, lose in one:
    worst = min(value[x] for w, x in every if w == win)
    assert value[lose] == pytest.approx(worst)
