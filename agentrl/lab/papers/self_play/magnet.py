"""What a magnet leaves at best: where self-play with its penalty comes to rest.

In every information set I the policy is the best against itself and a pull
towards the magnet rho, here uniform over legal moves:

  pi(I) = argmax over p  sum_a p(a) q(I, a) - alpha KL(p || rho)
        = rho(a) exp( q(I, a) / alpha ) / sum_b rho(b) exp( q(I, b) / alpha )

q is the mean return of the seat that moves, after a move, against pi. That is
where the gradient of a loss A log pi - alpha KL, a turn at a time, is 0.
Mirror descent comes there (2206.05825), exactly, where training has noise.
"""

import numpy as np

from agentrl.env.jit.games import tree
from agentrl.env.jit.games.tree import GameTree

STEPS = 40_000  # of mirror descent, at most
STEP = 0.5  # its step, over alpha
CLOSE = 1e-7  # from the fixed point, in probability


def equilibrium(game: GameTree, alpha: float) -> np.ndarray:
  """Computes the policy that a magnet holds self-play at: f64 [I, A].

    log pi <- (log pi + eta q) / (1 + eta alpha) + const

  Raises ValueError for an alpha that is not above 0, or that is so small that
  the descent goes around.
  """
  if not alpha > 0:
    raise ValueError(f'alpha must be > 0, got {alpha!r}')
  eta, logit = STEP * alpha, np.zeros(game.legal.shape)
  policy = tree.uniform(game)
  for _ in range(STEPS):
    q = action_values(game, policy)
    if np.abs(_softmax(game, q / alpha) - policy).max() < CLOSE:
      return policy
    logit = (logit + eta * q) / (1 + eta * alpha)
    policy = _softmax(game, logit)
  raise ValueError(
    f'alpha must be larger: with {alpha!r} {STEPS} steps do not come to rest'
  )


def action_values(game: GameTree, policy: np.ndarray) -> np.ndarray:
  """Returns what the seat that moves gets after each move: f64 [I, A].

  Mean over the states of an information set by the chance that the others come
  there; 0 of illegal moves.
  """
  reach = [tree.others_reach(game, policy, s) for s in range(game.seats)]
  others = [np.stack(x, axis=1) for x in zip(*reach, strict=True)]  # [n, S]
  total, weight = np.zeros(policy.shape), np.zeros(len(policy))
  value = np.zeros((0, game.seats))
  for level, chance in zip(
    reversed(game.levels), reversed(others), strict=True
  ):
    node, action = np.nonzero(level.child >= 0)
    info, after = level.info[node], value[level.child[node, action]]
    n, seat = np.arange(len(node)), game.seat[info]
    np.add.at(total, (info, action), chance[node, seat] * after[n, seat])
    live = np.flatnonzero(level.info >= 0)
    mover = game.seat[level.info[live]]
    np.add.at(weight, level.info[live], chance[live, mover])
    value = tree.expected(level, policy, value)
  return total / weight[:, None]


def _softmax(game: GameTree, logit: np.ndarray) -> np.ndarray:
  logit = np.where(game.legal, logit, -np.inf)
  weight = np.exp(logit - logit.max(axis=1, keepdims=True))
  return weight / weight.sum(axis=1, keepdims=True)
