"""Sampling once: one key, one score, nothing carried."""

import jax
import numpy as np

from agentrl import registry
from agentrl.task.base import make_attempts


def test_a_batch_is_the_score_of_what_was_sampled_with_the_key():
  keys = []

  def sample(attempts, key):
    keys.append(jax.random.key_data(key).tolist())
    return attempts.task + 1

  once = registry.bind('collect', 'once', {})
  tasks = np.array([3, 5])
  carry = object()
  key = jax.random.key(4)
  attempts = make_attempts(tasks, 1, 2, 1.0)
  batch, rest = once(sample, lambda x: 10 * x, attempts, (), carry, key)
  np.testing.assert_array_equal(batch, [40, 60])
  assert rest is carry
  assert keys == [jax.random.key_data(key).tolist()]
