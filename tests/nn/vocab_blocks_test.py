"""Blocks of words by rounds of tokens."""

import chex
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.nn import vocab_blocks

WANTED = np.array([[True, False, True], [False, True, True]])


@pytest.mark.parametrize('size', [1, 2, 3, 4, 100])
def test_what_is_brought_goes_back_where_it_was_wanted(size):
  rounds = vocab_blocks.deal(jnp.array(WANTED), size)
  x = np.arange(1.0, 13.0).reshape(2, 3, 2)
  brought = rounds.bring(jnp.array(x))
  np.testing.assert_array_equal(brought[:4], x[WANTED])
  assert not np.any(brought[4:])
  back = rounds.back(brought, x.shape)
  np.testing.assert_array_equal(back, np.where(WANTED[..., None], x, 0))
  assert rounds.number == -(-4 // min(size, 6))


def test_nothing_wanted_takes_no_round():
  rounds = vocab_blocks.deal(jnp.zeros((2, 3), bool), 2)
  assert rounds.number == 0
  assert not np.any(rounds.bring(jnp.ones((2, 3))))


@pytest.mark.parametrize('axis', [0, 1])
@pytest.mark.parametrize('words', [1, 3, 7, 50])
def test_each_word_is_fresh_in_one_block(axis, words):
  head = np.arange(14.0).reshape(7, 2)
  blocks = vocab_blocks.cut(
    jnp.array(head if axis == 0 else head.T), axis, words, jnp.float32
  )
  seen = []
  for j in range(blocks.number):
    block = blocks.at(j)
    w = np.asarray(block.w if axis == 0 else block.w.T)
    ids, used = np.asarray(block.id)[0], np.asarray(block.used)[0]
    chex.assert_trees_all_equal(w, np.float32(head[ids]))
    seen += ids[used].tolist()
  assert seen == list(range(7))


def test_sums_are_of_wanted_tokens_over_all_blocks():
  rounds = vocab_blocks.deal(jnp.array(WANTED), 3)
  rows = rounds.bring(jnp.arange(6.0).reshape(2, 3))
  add = lambda block, x, total: total + block * x  # noqa: E731
  sums = vocab_blocks.over_words(
    rounds, 4, lambda j: j + 1.0, add, rows, jnp.zeros_like(rows)
  )
  want = np.where(WANTED, np.arange(6.0).reshape(2, 3) * 10, 0)
  np.testing.assert_array_equal(rounds.back(sums, (2, 3)), want)
