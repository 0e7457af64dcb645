"""Personalised PageRank, solved as linear equations."""

import numpy as np
from scipy import sparse

# Closer to 1 the equations are singular in float64; the limit is near by then.
_MOST = 1 - 1e-13


def personalised_pagerank(
  edges: np.ndarray, restart: np.ndarray, *, damping: float = 0.85
) -> np.ndarray:
  """Computes the probability of each node under a walk with restarts.

    p = d (Pᵀ p + r Σ_{i without an edge} p_i) + (1 - d) r,  P_ij = A_ij / deg i

  The PageRank of Brin and Page (1998) with restarts at r in place of anywhere
  (Haveliwala, 2002); a walk that cannot go on restarts. Up to its sum p is x of

    (I - d Pᵀ) x = (1 - d) r,   or   (D - d A) D⁻¹ x = (1 - d) r

  where the nodes of a component have in x the mass that they have in r, times
  1 - d for a node without an edge. That holds for every d, and cancels what the
  solver loses where d is close to 1.

  Args:
    edges: [E, 2], undirected, each given once.
    restart: [N], not negative; r is this divided by its sum.
    damping: d, the probability to walk on.

  Returns:
    [N], with sum 1.

  Raises:
    ValueError: the restart has no mass, or the damping is not in [0, 1).
  """
  if not 0 <= damping < 1:
    raise ValueError(f'damping={damping} is not in [0, 1); use say 0.85')
  if restart.min() < 0 or not restart.sum() > 0:
    raise ValueError('restart has no mass; give a node more than 0, none less')
  r, n = restart / restart.sum(), len(restart)
  source, target = np.concatenate([edges, edges[:, ::-1]]).T
  ones = np.ones(len(source))
  links = sparse.coo_array((ones, (source, target)), shape=(n, n)).tocsc()
  degree = np.bincount(source, minlength=n)
  stuck = degree == 0
  d = min(damping, _MOST)
  diagonal = sparse.diags_array(np.where(stuck, 1.0, degree))
  x = sparse.linalg.spsolve(
    (diagonal - d * links).tocsc(), r, permc_spec='MMD_AT_PLUS_A'
  )
  x *= np.where(stuck, 1, degree)
  _, component = sparse.csgraph.connected_components(links, directed=False)
  mass = np.bincount(component, np.where(stuck, (1 - d) * r, r))
  got = np.bincount(component, x)
  p = x * (mass / np.where(got > 0, got, 1))[component]
  return p / p.sum()
