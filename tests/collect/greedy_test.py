"""The greedy companion of an attempt, on made-up records."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import registry
from agentrl.task.base import make_attempts
from tests.collect.made_up_records import (
  CASES,
  B,
  K,
  inputs,
  make_batch,
  make_record,
  score,
)


@pytest.mark.slow
def test_greedy_companion_tells_its_return_and_nothing_else():
  attempts = make_attempts(np.arange(B), 1, K, 0.7)
  record = make_record(CASES['enough'])
  f = registry.bind('collect', 'greedy_companion', {})
  keys = []

  def sample(attempts, key):
    """At temperature 0 a turn pays its task's number, and all turns happen."""
    keys.append(key)
    cold = jnp.asarray(attempts.temperature == 0)[:, None]
    paid = jnp.where(cold, attempts.task[:, None], record.reward)
    there = dataclasses.replace(
      record, reward=paid, valid=jnp.asarray(record.valid) | cold
    )
    return make_batch(there, attempts, 'full')

  got = f(inputs(sample, attempts))
  want = score(sample(attempts, jax.random.key(0)))
  terms = dict(got.turns.terms)
  back = np.asarray(terms.pop('greedy_return'))
  valid = np.asarray(record.valid)
  np.testing.assert_array_equal(
    back,
    np.where(valid, K * np.arange(B)[:, None], 0),
  )
  got = got.replace(turns=got.turns.replace(terms=terms), sampled=want.sampled)
  for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
    np.testing.assert_array_equal(x, y)
  assert keys[0] != keys[1]
