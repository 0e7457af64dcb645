"""Who plays which seat of a match: the roles of `rollout.seats`."""

import numpy as np

from agentrl.configs.config import Config
from agentrl.types import Attempts


def seated(c: Config, attempts: Attempts, at: int) -> Attempts:
  """Returns the attempts with the role that plays each of them.

  Seat s is played by role (s + p) mod S of rollout.seats, p the number of
  times that roles have moved on: `at` // rollout.swap_seats. So two roles
  exchange seats, and each keeps its parameters and its optimizer.

  Args:
    at: step of the stage, counted from its start
  """
  if len(c.rollout.seats) < 2:
    return attempts
  every = c.rollout.swap_seats
  role = roles(c, len(attempts.task), at // every if every else 0)
  return attempts.replace(role=role)


def roles(c: Config, b: int, moves: int = 0) -> np.ndarray:
  """Returns the players' indices that play b trajectories: [B] i32."""
  seats = c.rollout.seats
  players = list(dict.fromkeys(seats))
  of_seat = [players.index(role) for role in seats]
  return np.asarray(of_seat, np.int32)[(np.arange(b) + moves) % len(seats)]
