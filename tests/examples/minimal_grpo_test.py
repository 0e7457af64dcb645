"""GRPO in one file learns its task."""

import pytest

from examples import minimal_grpo


@pytest.mark.slow
def test_it_learns_to_find_numbers():
  success = minimal_grpo.train(steps=40)
  before, after = sum(success[:5]) / 5, sum(success[-5:]) / 5
  assert before < 0.5  # random guesses
  assert after > 0.7
