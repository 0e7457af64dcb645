"""Exact values of tabular policies: the whole tree of a small game.

  exploitability(pi) = 1/S sum_s [ max_{pi'_s} u_s(pi'_s, pi_-s) - u_s(pi) ]

0 exactly at an equilibrium of a zero-sum game, and what a best response gains
on average over the seats, in units of the reward. Against a fixed opponent o:

  pay(pi, o) = 1/S sum_s u_s(pi_s, o_-s)

At least 0 for an equilibrium of a zero-sum game of two, whoever the opponent
is, and at most 0 for whoever plays against one. u is exact: every deal and
every move is gone through, in float64.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.env.jit.games.base import Player, Rules

CHUNK = 1024  # states that are stepped in one call
LARGEST = 200_000  # nodes


class _Level(NamedTuple):
  """The nodes at one depth."""

  terminal: np.ndarray  # [n] bool
  returns: np.ndarray  # [n, S] f64  0 unless terminal
  info: np.ndarray  # [n] i64  information set; -1: terminal
  child: np.ndarray  # [n, A] i64  in the next level; -1: illegal


@dataclasses.dataclass(frozen=True, eq=False)
class GameTree:
  """All states of a game, and its I information sets."""

  levels: tuple[_Level, ...]
  seat: np.ndarray  # [I] i64  who moves there
  legal: np.ndarray  # [I, A] bool
  obs: np.ndarray  # [I, O] i32  what that seat sees
  game: tuple  # a state of each, stacked: [I, ...] leaves of a list

  @property
  def seats(self) -> int:
    return self.levels[0].returns.shape[1]


def build(rules: Rules) -> GameTree:
  """Goes through a game from every deal.

  Raises ValueError for a game that is too large.
  """
  look = _look(rules)
  states = jax.vmap(rules.deal)(jnp.arange(rules.deals, dtype=jnp.int32))
  at: dict[bytes, int] = {}
  seats, legal, obs, games = [], [], [], []
  levels, total = [], 0
  while n := len(jax.tree.leaves(states)[0]):
    total += n
    if total > LARGEST:
      raise ValueError(
        f'a game must have at most {LARGEST} states to be solved, got more in'
        f' {rules.title}; measure it against a fixed opponent'
      )
    seen = _chunked(look, states)
    info = np.full(n, -1)
    for i in np.flatnonzero(~seen.over):
      name = bytes([seen.seat[i]]) + seen.obs[i].tobytes()
      if name not in at:
        at[name] = len(at)
        seats.append(seen.seat[i])
        legal.append(seen.legal[i])
        obs.append(seen.obs[i])
        games.append([np.asarray(x[i]) for x in jax.tree.leaves(states)])
      info[i] = at[name]
    may = seen.legal & ~seen.over[:, None]
    child = np.where(may, np.cumsum(may).reshape(may.shape) - 1, -1)
    returns = np.where(seen.over[:, None], seen.returns, 0).astype(np.float64)
    levels.append(_Level(seen.over, returns, info, child))
    node, action = np.nonzero(may)
    states = jax.tree.map(lambda x, at=(node, action): x[at], seen.after)
  return GameTree(
    tuple(levels),
    np.asarray(seats, np.int64),
    np.asarray(legal),
    np.asarray(obs),
    tuple(np.stack(x) for x in zip(*games, strict=True)),
  )


class _Seen(NamedTuple):
  """What the rules say of n states, host arrays."""

  over: np.ndarray
  returns: np.ndarray
  seat: np.ndarray
  legal: np.ndarray
  obs: np.ndarray
  after: tuple  # [n, A, ...] leaves of the states after every action


def _look(rules: Rules):
  @jax.jit
  def look(states):
    def one(state):
      seat = rules.seat(state)
      actions = jnp.arange(len(rules.actions), dtype=jnp.int32)
      after = jax.vmap(lambda a: rules.play(state, a))(actions)
      obs = rules.observe(state, seat)
      over, returns = rules.over(state), rules.returns(state)
      return _Seen(over, returns, seat, rules.legal(state), obs, after)

    return jax.vmap(one)(states)

  return look


def _chunked(look, states) -> _Seen:
  """Looks at n states in chunks: one program serves every level."""
  n = len(jax.tree.leaves(states)[0])
  parts = []
  for begin in range(0, n, CHUNK):
    part = jax.tree.map(lambda x, i=begin: x[i : i + CHUNK], states)
    size = min(CHUNK, n - begin)
    fill = lambda x: np.concatenate([x, np.repeat(x[:1], CHUNK - len(x), 0)])  # noqa: E731
    seen = jax.device_get(look(jax.tree.map(fill, part)))
    parts.append(jax.tree.map(lambda x, m=size: x[:m], seen))
  return jax.tree.map(lambda *x: np.concatenate(x), *parts)


def uniform(tree: GameTree) -> np.ndarray:
  """Returns the policy that plays legal moves with one probability: [I, A]."""
  legal = tree.legal.astype(np.float64)
  return legal / legal.sum(axis=1, keepdims=True)


def tabulated(tree: GameTree, rules: Rules, player: Player) -> np.ndarray:
  """Returns the policy of a player of the tree's rules: f64 [I, A]."""
  shape = jax.tree.structure(rules.deal(jnp.int32(0)))
  states = jax.tree.unflatten(shape, tree.game)
  moves = jax.jit(jax.vmap(lambda state: player(rules, state)))(states)
  moves = np.asarray(moves, np.float64)
  return moves / moves.sum(axis=1, keepdims=True)  # rounding of float32


def values(tree: GameTree, policy: np.ndarray) -> np.ndarray:
  """Returns what each seat gets if all play the policy [I, A]: f64 [S]."""
  policy = checked(tree, policy)
  value = np.zeros((0, tree.seats))
  for level in reversed(tree.levels):
    value = expected(level, policy, value)
  return value.mean(axis=0)


def pay(tree: GameTree, policy: np.ndarray, opponent: np.ndarray) -> float:
  """Returns what a policy gets where an opponent has the other seats.

  Mean over the seats; both are [I, A].
  """
  policy, opponent = checked(tree, policy), checked(tree, opponent)
  got = []
  for seat in range(tree.seats):
    mine = (tree.seat == seat)[:, None]
    got.append(values(tree, np.where(mine, policy, opponent))[seat])
  return float(np.mean(got))


def exploitability(tree: GameTree, policy: np.ndarray) -> float:
  """Returns what best responses to a policy [I, A] gain, mean over the seats.

  The responses know the policy and answer every seat of it alone. Rows of the
  policy are probabilities, 0 of illegal moves.
  """
  policy = checked(tree, policy)
  best = [best_response(tree, policy, seat) for seat in range(tree.seats)]
  return float(np.mean(np.asarray(best) - values(tree, policy)))


def best_response(tree: GameTree, policy: np.ndarray, seat: int) -> float:
  """Returns the most a seat gets against the others' policy [I, A]."""
  policy, mine = checked(tree, policy), tree.seat == seat
  reach = others_reach(tree, policy, seat)
  value = np.zeros((0, tree.seats))
  for level, chance in zip(reversed(tree.levels), reversed(reach), strict=True):
    own = (level.info >= 0) & mine[level.info]
    # Nodes of an information set are alike to the seat: one move for all.
    gain = np.full(policy.shape, -np.inf)
    node, action = np.nonzero((level.child >= 0) & own[:, None])
    gain[level.info[node], action] = 0
    after = value[level.child[node, action], seat]
    np.add.at(gain, (level.info[node], action), chance[node] * after)
    response = np.eye(policy.shape[1])[np.argmax(gain, axis=1)]
    value = expected(level, np.where(mine[:, None], response, policy), value)
  return float(value[:, seat].mean())


def others_reach(
  tree: GameTree, policy: np.ndarray, seat: int
) -> list[np.ndarray]:
  """Returns the chance that the others come to each node: f64 [n] by level.

  As if the seat itself came wherever it can.
  """
  mine = tree.seat == seat
  reach = [np.full(len(tree.levels[0].info), 1.0)]
  for level in tree.levels[:-1]:
    p = np.where(mine[level.info][:, None], 1.0, policy[level.info])
    node, action = np.nonzero(level.child >= 0)
    reach.append(reach[-1][node] * p[node, action])
  return reach


def checked(tree: GameTree, policy: np.ndarray) -> np.ndarray:
  """Returns the policy in float64.

  Raises ValueError for another shape, or where an illegal move is played.
  """
  policy = np.asarray(policy, np.float64)
  whole = policy.shape == tree.legal.shape
  if not whole or np.any(policy < 0) or np.any(policy[~tree.legal] > 0):
    raise ValueError(
      f'policy must be probabilities {tree.legal.shape}, 0 where a move is'
      f' illegal, got {policy.shape}'
    )
  if np.any(np.abs(policy.sum(axis=1) - 1) > 1e-6):
    raise ValueError(
      'policy must have rows that sum to 1, got'
      f' {policy.sum(axis=1).min():g} to {policy.sum(axis=1).max():g}'
    )
  return policy


def expected(level: _Level, policy, value) -> np.ndarray:
  """Returns values [n, S] of a level, given the next level's."""
  out = level.returns.copy()
  node, action = np.nonzero(level.child >= 0)
  p = policy[level.info[node], action]
  np.add.at(out, node, p[:, None] * value[level.child[node, action]])
  return out
