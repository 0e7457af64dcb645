"""Values of turns in trees, against walks over explicit nodes."""

import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.advantage import search_values
from agentrl.types import Batch


def grown(seed, n=8, depth=4):
  """Two random trees of n trajectories each, which branch now and then."""
  rng = np.random.default_rng(seed)
  nodes, rewards, group = [], [], []
  fresh = iter(range(10_000))
  for g in (0, 1):
    mine: list[list[int]] = []
    for _ in range(n):
      length = int(rng.integers(1, depth + 1))
      way: list[int] = []
      if mine and rng.random() < 0.7:
        source = mine[rng.integers(len(mine))]
        way = source[: int(rng.integers(0, min(length, len(source)) + 1))]
      if len(way) == length:  # it has to be new somewhere
        way = way[:-1]
      way = [*way, *(next(fresh) for _ in range(length - len(way)))]
      mine.append(way)
      nodes.append(way)
      rewards.append([*[0.0] * (length - 1), float(rng.integers(0, 9)) / 8])
      group.append(g)
  tokens = [[[1]] * len(way) for way in nodes]
  logp = [[[-1.0]] * len(way) for way in nodes]
  made = Batch.from_turns(tokens, logp, reward=rewards, group=group)
  node = np.full(made.turns.valid.shape, -1)
  for i, way in enumerate(nodes):
    node[i, : len(way)] = way
  return made.replace(turns=made.turns.replace(node=jnp.asarray(node)))


def scores(seed, shape=(16, 4)):
  """A critique; the copies of a node may disagree, and the first is heard."""
  rng = np.random.default_rng(seed + 100)
  return rng.integers(0, 4, shape).astype(np.float32)


def walked(made, critique=None):
  """Q, or Q^ of every turn, by lists."""
  node, valid = np.asarray(made.turns.node), np.asarray(made.turns.valid)
  value = np.asarray(made.turns.reward, np.float64).sum(axis=1)
  out = np.zeros(node.shape)
  for i, k in zip(*np.nonzero(valid), strict=True):
    if critique is None:
      through = [j for j in range(len(node)) if node[j, k] == node[i, k]]
      out[i, k] = np.mean(value[through])
      continue
    parent = node[i, k - 1] if k else None
    first: dict[int, int] = {}
    for j in range(len(node)):
      same_group = made.ids['group'][i] == made.ids['group'][j]
      if valid[j, k] and same_group and (not k or node[j, k - 1] == parent):
        first.setdefault(int(node[j, k]), j)
    own = {x: critique[j, k] for x, j in first.items()}
    mine = own[int(node[i, k])]
    below = sum(x < mine for x in own.values())
    equal = sum(x == mine for x in own.values()) - 1
    n = len(own)
    out[i, k] = (below + equal / 2) / (n - 1) if n > 1 else 0.5
  return out


@pytest.mark.parametrize('seed', range(2))
def test_values_are_those_of_a_walk(seed):
  made = grown(seed)
  turns, value = search_values.turns_of(made), made.turns.reward.sum(axis=1)
  q = search_values.means(turns, value)
  np.testing.assert_allclose(q, walked(made), atol=1e-6)
  critique = scores(seed)
  place = search_values.places(turns, jnp.asarray(critique))
  np.testing.assert_allclose(place, walked(made, critique), atol=1e-6)
  both = search_values.values(turns, value, jnp.asarray(critique), alpha=0.25)
  want = 0.25 * walked(made) + 0.75 * walked(made, critique)
  want = np.where(made.turns.valid, want, 0)
  np.testing.assert_allclose(both, want, atol=1e-6)


def test_visits_under_way_lower_a_mean():
  made = grown(0)
  turns, value = search_values.turns_of(made), made.turns.reward.sum(axis=1)
  count = np.sum(np.asarray(turns.same), axis=2).T
  more = np.ones(made.turns.valid.shape)
  got = search_values.means(turns, value, jnp.asarray(more))
  want = walked(made) * count / np.maximum(count + 1, 1)
  np.testing.assert_allclose(got, want, atol=1e-6)


def test_what_does_not_count_is_in_no_value():
  made = grown(1)
  scored = made.turns.scored.at[0].set(False)
  without = made.replace(turns=made.turns.replace(scored=scored))
  turns = search_values.turns_of(without)
  assert not np.any(turns.same[:, 0])
  assert not np.any(turns.sibling[:, :, 0])
  q = search_values.means(turns, made.turns.reward.sum(axis=1))
  assert not np.any(q[0])
