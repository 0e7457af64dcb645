"""Sizes of the benchmark of sampling."""

import types

import numpy as np
import pytest

from agentrl import mesh
from agentrl.configs import grpo
from agentrl.lab.bench import sampling
from agentrl.nn import transformer


def test_parameters_at_the_size_of_the_comparison():
  count = mesh.count(transformer.specs(sampling.FULL.shape))
  assert count == 4_983_040


@pytest.mark.nightly
def test_a_message_may_be_eight_times_as_long_and_ends_at_its_end():
  size = sampling.TINY
  cases = sampling.decode(size, '')
  said = cases['decode_message_8x'].call()
  assert said.tokens.shape == (size.batch, sampling.ALLOWED * size.new)
  np.testing.assert_array_equal(said.length, size.new)
  said = cases['decode'].call()
  np.testing.assert_array_equal(said.length, size.new)
  assert np.all(np.asarray(said.logp) < 0)


def test_groups_share_a_prompt_and_say_messages_of_their_own():
  size = sampling.TINY
  case = sampling.decode(size, '')['decode_group']
  assert f'prompt {size.shared}, ' in case.shapes
  said = np.asarray(case.call().tokens)
  assert said.shape == (size.batch, size.new)
  assert len({tuple(x) for x in said}) == size.batch
  shared = sampling.group_prompts(size).tokens
  kinds = {tuple(x) for x in np.asarray(shared).tolist()}
  assert len(kinds) == size.batch // size.group


def test_work_of_a_group_is_that_of_a_prompt_read_once():
  """Groups of one are slots; in larger ones fewer bytes say as much."""
  size = sampling.FULL._replace(prompt=512)
  one, eight = (sampling.group_work(size._replace(group=g)) for g in (1, 8))
  assert one == sampling.message_work(size)
  assert eight[0].operations == one[0].operations / 8
  assert eight[1].operations == one[1].operations
  c = size.shape
  key = 2 * 4 * c.layers * c.kv_heads * c.head_dim
  spared = one[1].bytes - eight[1].bytes
  assert spared == (32 - 4) * 512 * (size.new - 1) * key


def test_attempts_are_a_batch_of_groups():
  c = grpo.get_config('tiny')
  attempts = sampling.attempts(types.SimpleNamespace(config=c))
  assert attempts.task.shape == (c.rollout.batch,)
  _, sizes = np.unique(attempts.group, return_counts=True)
  assert np.all(sizes == c.rollout.group_size)
  assert np.all(attempts.limit == c.rollout.max_turns)
