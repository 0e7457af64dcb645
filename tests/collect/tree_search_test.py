"""Search trees of groups: where they grow, what is repeated, who owns it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import registry
from agentrl.advantage import search_values
from agentrl.collect import tree_search
from agentrl.configs import base, grpo
from tests import errors
from tests.advantage import search_values_test as trees
from tests.collect import branch_test as branches

B, K, G = branches.B, branches.K, branches.G


@pytest.fixture(scope='module')
def batch(tmp_path_factory):
  """In a slippery lake: a replay needs the world's luck of every turn."""
  folder = str(tmp_path_factory.mktemp('data'))
  return jax.device_get(branches._collect(folder, 'tree_search', 'turn')[2])


def copies(batch):
  """(i, k, owner): repeated turns, and who sampled them."""
  owner: dict[int, int] = {}
  out = []
  for i, k in zip(*np.nonzero(batch.turns.valid), strict=True):
    first = owner.setdefault(int(batch.turns.node[i, k]), int(i))
    if first != i:
      out.append((int(i), int(k), first))
  return out


@pytest.mark.slow
def test_branches_repeat_what_they_share(batch):
  found = copies(batch)
  assert len(found) > 4
  for i, k, j in found:
    assert batch.ids['group'][i] == batch.ids['group'][j]
    assert batch.ids['branch'][i] == 1
    for x, y in zip(
      branches._said(batch, i, k)[:2],
      branches._said(batch, j, k)[:2],
      strict=True,
    ):
      np.testing.assert_array_equal(x, y)
    assert batch.turns.state[i, k] == batch.turns.state[j, k]
    np.testing.assert_allclose(
      batch.turns.reward[i, k], batch.turns.reward[j, k]
    )
    np.testing.assert_array_equal(
      branches._seen(batch, i, k), branches._seen(batch, j, k)
    )


@pytest.mark.slow
def test_a_branch_of_a_branch_has_the_luck_of_all_before_it(batch):
  """Some turns were sampled by a trajectory that repeats others itself."""
  found = copies(batch)
  owners = {i: {j for a, _, j in found if a == i} for i, _, _ in found}
  assert any(len(x) > 1 for x in owners.values())
  for i in owners:
    last = max(k for a, k, _ in found if a == i)
    if last + 1 < K and batch.turns.valid[i, last + 1]:
      (j,) = {b for a, k, b in found if (a, k) == (i, last)}
      # Also what is seen behind the last repeated turn.
      assert batch.turns.state[i, last + 1] == batch.turns.state[j, last + 1]


@pytest.mark.slow
def test_shared_turns_weigh_once(batch):
  weighs: dict[int, list[float]] = {}
  for i, k in zip(*np.nonzero(batch.turns.valid), strict=True):
    tokens, _, weight = branches._said(batch, i, k)
    assert len(set(weight)) == 1
    assert len(tokens) > 0
    weighs.setdefault(int(batch.turns.node[i, k]), []).append(weight[0])
  assert all(x == [1.0] + [0.0] * (len(x) - 1) for x in weighs.values())
  assert max(len(x) for x in weighs.values()) > 1


@pytest.mark.slow
def test_what_was_sampled_is_counted_once(batch):
  weight = batch.rows.weight[batch.rows.sampled]
  assert batch.sampled['tokens'] == weight.sum()
  assert batch.sampled['attempts'] == B
  assert batch.sampled['env_steps'] == batch.turns.valid.sum()


def descend(batch, group, rule, critique, more, fresh):
  """One attempt's way down, by a walk over explicit nodes: (node path)."""
  value = np.asarray(batch.turns.reward).sum(axis=1)
  nodes, valid = np.asarray(batch.turns.node), np.asarray(batch.turns.valid)
  mine = [i for i in range(len(nodes)) if int(batch.ids['group'][i]) == group]
  path: tuple[int, ...] = ()
  while True:
    k = len(path)
    on = [i for i in mine if tuple(nodes[i, :k]) == path and valid[i, :k].all()]
    children = sorted(
      {int(nodes[i, k]) for i in on if k < nodes.shape[1] and valid[i, k]}
    )
    if len(children) + fresh.get(path, 0) < rule.width:
      return path

    def visits(node, k=k, on=on):
      through = [i for i in on if nodes[i, k] == node]
      return through, len(through) + more.get(node, 0)

    total = sum(visits(x)[1] for x in children) + fresh.get(path, 0)
    scores = {}
    rank = {}
    if critique is not None:
      own = {x: critique[visits(x)[0][0], k] for x in children}
      for x in children:
        below = sum(own[y] < own[x] for y in children)
        equal = sum(own[y] == own[x] for y in children) - 1
        n = len(children)
        rank[x] = (below + equal / 2) / (n - 1) if n > 1 else 0.5
    for x in children:
      through, n = visits(x)
      if not any(k + 1 < valid.shape[1] and valid[i, k + 1] for i in through):
        continue
      q = sum(value[i] for i in through) / n
      if critique is not None:
        q = rule.alpha * q + (1 - rule.alpha) * rank[x]
      scores[x] = q + rule.explore * np.sqrt(np.log(max(total, 1)) / (n + 1))
    if not scores:
      return path
    path = (*path, max(scores, key=scores.get))


@pytest.mark.parametrize(
  ('width', 'criticised'),
  [
    (2, True),
    pytest.param(3, False, marks=pytest.mark.slow),
    pytest.param(2, False, marks=pytest.mark.slow),
  ],
)
def test_attempts_branch_where_uct_says(width, criticised):
  for seed in range(4):
    made = trees.grown(seed)
    critique = trees.scores(seed) if criticised else None
    rule = tree_search.Rule(explore=0.7, width=width, alpha=0.6)
    origin, turns = tree_search.chosen(
      made,
      None if critique is None else jnp.asarray(critique),
      jnp.array([0, 0, 0, 1, 1, 1]),
      rule,
    )
    origin, turns = origin.reshape(2, 3), turns.reshape(2, 3)
    for g in range(2):
      more: dict[int, int] = {}
      fresh: dict[tuple[int, ...], int] = {}
      for i in range(3):
        path = descend(made, g, rule, critique, more, fresh)
        assert int(turns[g, i]) == len(path), (seed, g, i)
        got = made.turns.node[origin[g, i], : len(path)]
        assert got.tolist() == list(path)
        for node in path:
          more[node] = more.get(node, 0) + 1
        fresh[path] = fresh.get(path, 0) + 1


def test_a_better_turn_is_searched_more():
  """Without exploration what earns most gets the attempts."""
  made = trees.grown(0)
  rule = tree_search.Rule(explore=0.0, width=2, alpha=1.0)
  origin, turns = tree_search.chosen(made, None, jnp.array([0]), rule)
  q = search_values.means(
    search_values.turns_of(made), made.turns.reward.sum(axis=1)
  )
  mine = np.asarray(made.ids['group']) == 0
  if int(turns[0]):
    first = float(q[origin[0], 0])
    goes_on = np.asarray(made.turns.valid[:, 1])
    assert first == pytest.approx(float(np.max(q[mine & goes_on, 0])))


def test_rounds_must_divide_a_group():
  c = grpo.get_config('tiny')
  c.collect = 'tree_search'
  registry.check(base.wiring(c), c)
  c.hp.collect = {'tree_search': {'rounds': 3}}
  with errors.raises(ValueError, 'hp.collect.tree_search.rounds 3 8'):
    registry.check(base.wiring(c), c)
  c.hp.collect = {'tree_search': {'rounds': 2}}
  c.prefix = 'random_prefix'
  with errors.raises(ValueError, 'c.prefix random_prefix'):
    registry.check(base.wiring(c), c)
