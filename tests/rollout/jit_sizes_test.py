"""Sizes of rollouts inside jit: what cannot be, and what follows from them."""

import pytest

from agentrl.rollout import jit_sizes
from tests import errors
from tests.rollout.jit_test import world


@pytest.mark.parametrize(
  ('field', 'value'),
  [('history', 'all'), ('slots', 0), ('turns', 0), ('message', 0)],
)
def test_impossible_plans_say_what_to_change(field, value):
  good = {'slots': 1, 'turns': 1, 'message': 1}
  with errors.raises(ValueError, f'rollout.{field} {value!r}'):
    jit_sizes.RolloutSizes(**{**good, field: value})


def test_a_full_history_has_room_for_every_turn():
  """Without a template rows are turns one behind the other."""
  sizes = dict(slots=2, turns=5, message=3)
  turn = world().obs_tokens + 3
  full = jit_sizes.RolloutSizes(history='full', **sizes)
  assert jit_sizes.capacity(world(), full) == (turn - 3, 5 * turn, 5 * turn + 1)
  windowed = jit_sizes.RolloutSizes(window=2, **sizes)
  assert jit_sizes.capacity(world(), windowed)[:2] == (2 * turn - 3, 2 * turn)
