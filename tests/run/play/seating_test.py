"""Who plays which seat, at which step."""

import numpy as np
import pytest

from agentrl.configs.config import Config
from agentrl.configs.sections import RolloutConfig
from agentrl.run.play import seating
from agentrl.task.base import make_attempts


def roles(seats, at=0, swap=0, b=6):
  c = Config(rollout=RolloutConfig(seats=seats, swap_seats=swap))
  attempts = make_attempts(np.zeros(b, int), 2, 1, 1.0)
  role = seating.seated(c, attempts, at).role
  return None if role is None else role.tolist()


def test_one_policy_needs_no_roles():
  assert roles(()) is None


def test_roles_sit_in_the_order_of_their_seats():
  assert roles(('policy', 'b')) == [0, 1] * 3
  assert roles(('b', 'policy')) == [0, 1] * 3  # indices into the players
  assert roles(('policy', 'b', 'policy')) == [0, 1, 0] * 2


@pytest.mark.parametrize('at', range(9))
def test_two_roles_exchange_seats_after_every_period(at):
  swapped = at // 3 % 2 == 1
  assert (
    roles(('policy', 'b'), at, swap=3) == ([1, 0] if swapped else [0, 1]) * 3
  )


def test_three_roles_move_on_by_one_seat():
  three = ('policy', 'b', 'c')
  assert [roles(three, at, swap=1, b=3) for at in range(4)] == [
    [0, 1, 2],
    [1, 2, 0],
    [2, 0, 1],
    [0, 1, 2],
  ]
