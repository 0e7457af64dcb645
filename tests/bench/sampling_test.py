"""Sizes of the benchmark of sampling."""

import types

import numpy as np

from agentrl import mesh
from agentrl.bench import sampling
from agentrl.configs import grpo
from agentrl.nn import transformer


def test_parameters_at_the_size_of_the_comparison():
  count = mesh.count(transformer.specs(sampling.FULL.shape))
  assert count == 4_983_040


def test_a_message_may_be_eight_times_as_long_and_ends_at_its_end():
  size = sampling.TINY
  cases = sampling.decode(size, '')
  said = cases['decode_message_8x'].call()
  assert said.tokens.shape == (size.batch, sampling.ALLOWED * size.new)
  np.testing.assert_array_equal(said.length, size.new)
  said = cases['decode'].call()
  np.testing.assert_array_equal(said.length, size.new)
  assert np.all(np.asarray(said.logp) < 0)


def test_attempts_are_a_batch_of_groups():
  c = grpo.get_config('tiny')
  attempts = sampling.attempts(types.SimpleNamespace(config=c))
  assert attempts.task.shape == (c.rollout.batch,)
  _, sizes = np.unique(attempts.group, return_counts=True)
  assert np.all(sizes == c.rollout.group_size)
  assert np.all(attempts.limit == c.rollout.max_turns)
