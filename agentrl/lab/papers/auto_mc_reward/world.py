"""A grid with a key and a door, and a small learner of one reward table.

A state is (has the key, cell) of SIZE x SIZE cells. The door is won with the
key alone, which pays 1 and ends the episode; nothing else pays. The learner is
tabular Q-learning:

  Q(s, a) += α (r + R(s, a) + γ max_b Q(s', b) - Q(s, a))

R is the reward table under test, over (state, action) as intended; the move is
another one with probability SLIP.
"""

import random
from typing import NamedTuple

import numpy as np

SIZE, TURNS, SLIP = 8, 40, 0.1
APART = 7  # steps from start to key and from key to door, at least
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))
RATE, DISCOUNT, RANDOM = 0.5, 0.95, 0.2
WATCHED = 20  # episodes after learning, that are analysed


class Trace(NamedTuple):
  """What was seen of a policy."""

  key: float  # share of episodes with the key
  won: float
  shaped: float  # sum of R, mean over episodes
  revisits: float  # share of moves to a state of the same episode


class World:
  """A drawn grid; X = 2 SIZE² states, 4 actions."""

  def __init__(self, seed: int):
    rng = np.random.default_rng([seed, 0])
    far = False
    while not far:
      self.start, self.key, self.door = rng.integers(0, SIZE, (3, 2)).tolist()
      far = min(_steps(self.start, self.key), _steps(self.key, self.door)) > (
        APART - 1
      )
    cells = [(x, y) for x in range(SIZE) for y in range(SIZE)]
    self.next = [
      [self._move(has, x, y, move) for move in MOVES]
      for has in (0, 1)
      for x, y in cells
    ]
    self.first = self._at(0, *self.start)
    self.won = self._at(1, *self.door)

  def _at(self, has: int, x: int, y: int) -> int:
    return (has * SIZE + x) * SIZE + y

  def _move(self, has: int, x: int, y: int, move: tuple[int, int]) -> int:
    x = min(max(x + move[0], 0), SIZE - 1)
    y = min(max(y + move[1], 0), SIZE - 1)
    return self._at(int(has or [x, y] == self.key), x, y)

  def cell(self, state: int) -> tuple[int, int, int]:
    """Returns x, y and whether it has the key."""
    has, cell = divmod(state, SIZE * SIZE)
    return (*divmod(cell, SIZE), has)


def _steps(a: list[int], b: list[int]) -> int:
  return abs(a[0] - b[0]) + abs(a[1] - b[1])


def learn(
  world: World, reward: np.ndarray, episodes: int, seed: int
) -> tuple[np.ndarray, Trace]:
  """Learns anew: the greedy action of every state, [X], and what it does.

  Args:
    reward: R, [X, 4], which is added to what the world pays
  """
  rng, table = random.Random(seed), reward.tolist()
  q = [[0.0] * 4 for _ in world.next]
  for _ in range(episodes):
    s = world.first
    for _ in range(TURNS):
      a = rng.randrange(4) if rng.random() < RANDOM else _greedy(q[s], rng)
      to = world.next[s][rng.randrange(4) if rng.random() < SLIP else a]
      target = table[s][a] + (to == world.won)
      if to != world.won:
        target += DISCOUNT * max(q[to])
      q[s][a] += RATE * (target - q[s][a])
      s = to
      if s == world.won:
        break
  policy = np.array([_greedy(x, rng) for x in q])
  return policy, _watched(world, policy, table, rng)


def _greedy(values: list[float], rng: random.Random) -> int:
  best = max(values)
  return rng.choice([a for a, v in enumerate(values) if v == best])


def _watched(
  world: World, policy: np.ndarray, table: list, rng: random.Random
) -> Trace:
  key = won = shaped = revisits = moves = 0.0
  for _ in range(WATCHED):
    s = world.first
    been = {s}
    for _ in range(TURNS):
      a = int(policy[s])
      shaped += table[s][a]
      s = world.next[s][rng.randrange(4) if rng.random() < SLIP else a]
      revisits, moves = revisits + (s in been), moves + 1
      been.add(s)
      if s == world.won:
        break
    key += world.cell(s)[2]
    won += s == world.won
  n = WATCHED
  return Trace(key / n, won / n, shaped / n, revisits / moves)


def success(world: World, policy: np.ndarray) -> float:
  """Computes the exact chance to win within TURNS turns."""
  to = np.array(world.next)  # [X, 4]
  value = np.arange(len(to)) == world.won
  every = np.arange(len(to))
  chance = value.astype(float)
  for _ in range(TURNS):
    ahead = chance[to]
    chance = (1 - SLIP) * ahead[every, policy] + SLIP * ahead.mean(axis=1)
    chance[world.won] = 1.0
  return float(chance[world.first])
