"""Maths of search trees: selection, backup, siblings.

A tree of N nodes is the array `parent` [N] of i32: -1 at a root, and parents
stand before their children. Functions take NumPy arrays, or those of jax.numpy
where `xp` says so.
"""

from typing import Any

import numpy as np


def uct(mean, visits, total, *, c: float = 1.0, extra: float = 0.0, xp=np):
  """Q + c √(ln N / (n + extra)), ∞ where n + extra is 0.

  UCT (Kocsis and Szepesvári, "Bandit based Monte-Carlo planning", 2006); with
  extra=1 as in Agent Q (arXiv 2408.07199).

  Args:
    mean: Q, [A]
    visits: n, [A]
    total: N, visits of the parent
  """
  n = visits + extra
  bonus = xp.sqrt(xp.log(xp.maximum(total, 1)) / xp.maximum(n, 1e-9))
  return xp.where(n > 0, mean + c * bonus, xp.inf)


def puct(mean, visits, prior, *, c: float = 1.25, xp=np):
  """Q + c P √(Σ n) / (1 + n)   (AlphaZero, arXiv 1712.01815)

  Args:
    mean, visits, prior: Q, n and P of the children of one node, [A]
  """
  total = xp.sum(visits, axis=-1, keepdims=True)
  return mean + c * prior * xp.sqrt(total) / (1 + visits)


def path(parent, node: int) -> np.ndarray:
  """Lists the nodes from one up to its root, itself first."""
  nodes = [node]
  while parent[nodes[-1]] >= 0:
    nodes.append(int(parent[nodes[-1]]))
  return np.array(nodes)


def backed_up(parent, visits, total, node: int, value: float):
  """Counts a visit of a node with a value on its whole path.

  n + 1 and Σ value + v at the node and at all nodes above it; the mean
  Q = Σ value / n is then that of Q ← (n Q + v) / (n + 1).

  Returns: visits and total, new arrays [N]
  """
  on = np.zeros(len(parent))  # [N]
  on[path(parent, node)] = 1
  return visits + on, total + on * value


def subtree_sums(parent, x) -> np.ndarray:
  """Sums x over every node and all that is below it: [N]."""
  out = np.array(x, np.float64)
  for node in range(len(out) - 1, -1, -1):
    if parent[node] >= 0:
      out[parent[node]] += out[node]
  return out


def best_below(parent, x) -> np.ndarray:
  """Returns the largest x of every node and all that is below it: [N]."""
  out = np.array(x, np.float64)
  for node in range(len(out) - 1, -1, -1):
    if parent[node] >= 0:
      out[parent[node]] = max(out[parent[node]], out[node])
  return out


def by_rank(score: Any, *, xp=np):
  """Returns places among siblings in [0, 1]: [A]; the best 1, the worst 0.

  Equal scores share the mean of their places; one alone has 1/2.
  """
  n = score.shape[0]
  below = xp.sum(score[None] < score[:, None], axis=1)
  equal = xp.sum(score[None] == score[:, None], axis=1) - 1
  return (below + 0.5 * equal) / max(n - 1, 1) + 0.5 * (n == 1)


def mixed(search, critique, *, alpha: float = 0.5):
  """α Q + (1 − α) Q̂: what a search found and what a critic said of it.

  Agent Q (arXiv 2408.07199), where Q̂ is a place among siblings.
  """
  return alpha * search + (1 - alpha) * critique


def sibling_pairs(parent, value, *, margin: float = 0.0):
  """Lists pairs (win, lose) of children of one node, [P, 2] i64.

  All of them whose values differ by more than the margin.
  """
  parent, value = np.asarray(parent), np.asarray(value)
  same = (parent[:, None] == parent[None]) & (parent[:, None] >= 0)
  better = value[:, None] - value[None] > margin
  return np.argwhere(same & better)
