"""Equal prompts are read once, and every slot has what it would have had."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.nn import decode, transformer
from agentrl.rollout import distinct_prompts
from tests.nn import decoders

SHAPE = transformer.DecoderConfig(
  vocab=9, width=8, layers=2, heads=2, kv_heads=1, head_dim=4, mlp=8
)
N, C = 16, 6


def prompts(kinds: int):
  """[N, C] tokens of `kinds` different prompts, junk behind their ends."""
  r = np.random.default_rng(kinds)
  tokens = r.integers(0, 3, (kinds, C))[r.integers(0, kinds, N)]
  length = 1 + tokens.sum(axis=1) % C
  junk = r.integers(0, 9, (N, C))
  tokens = np.where(np.arange(C) < length[:, None], tokens, junk)
  return jnp.asarray(tokens, jnp.int32), jnp.asarray(length, jnp.int32)


@pytest.mark.parametrize('kinds', [1, 3, 40])
def test_classes_are_those_of_equal_prompts(kinds):
  tokens, length = prompts(kinds)
  of, first, count = map(np.asarray, distinct_prompts.classes(tokens, length))
  pairs = zip(np.asarray(tokens), np.asarray(length), strict=True)
  words = [tuple(t[:n].tolist()) for t, n in pairs]
  assert count == len(set(words))
  assert len(set(zip(words, of.tolist(), strict=True))) == count
  assert [words[first[x]] for x in of] == words


@pytest.mark.parametrize(
  'kinds', [pytest.param(1, marks=pytest.mark.nightly), 3, 40]
)
def test_hidden_states_and_caches_are_those_of_each_slot(kinds, monkeypatch):
  monkeypatch.setattr(distinct_prompts, 'TOKENS', 12)
  tokens, length = prompts(kinds)
  sizes = []
  with decoders.float64(monkeypatch):
    shape, params = decoders.exact(SHAPE)
    params = decode.prepare_decode_params(shape, params)

    def read(cache, tokens, last):
      sizes.append(len(tokens))
      return decode.forward_with_cache(shape, params, cache, tokens, None, last)

    @jax.jit
    def both(tokens, length):
      cache = decode.empty(shape, N, C + 2)
      want = read(cache, tokens, length - 1)
      dirty = jax.tree.map(lambda x: x + 1, cache)
      return want, distinct_prompts.read(read, dirty, tokens, length)

    want, got = jax.device_get(both(tokens, length))
  assert sizes[0] == N
  assert set(sizes[1:]) == {2}  # an eighth, and 12 tokens
  np.testing.assert_allclose(got[0], want[0], atol=1e-12, rtol=0)
  seen = np.arange(C + 2) < np.asarray(length)[:, None]
  for a, b in zip(
    jax.tree.leaves(got[1]), jax.tree.leaves(want[1]), strict=True
  ):
    own = seen[:, None, None] if a.shape[3] == C + 2 else seen[:, None, :, None]
    np.testing.assert_allclose(a * own, b * own, atol=1e-12, rtol=0)


@pytest.mark.parametrize('seed', range(40))
def test_families_are_found_where_idle_slots_fill_them(seed):
  r, size = np.random.default_rng(seed), 4
  kinds = r.integers(0, 4, N) if seed % 2 else np.repeat(np.arange(4), 4)
  kinds, idle = r.permutation(kinds), r.random(N) < r.choice([0, 0.2, 0.7, 1])
  kinds = np.where(idle, r.integers(0, 6, N), kinds)  # of anything
  length = 1 + kinds % 3
  junk = r.integers(0, 9, (N, C))
  tokens = np.where(np.arange(C) < length[:, None], kinds[:, None], junk)
  order, prompt, found = map(
    np.asarray,
    jax.jit(distinct_prompts.families, static_argnums=3)(
      jnp.asarray(tokens, jnp.int32), jnp.asarray(length), idle, size
    ),
  )
  members = np.bincount(kinds[~idle], minlength=6)
  assert found == (np.sum(-members % size) <= idle.sum())
  np.testing.assert_array_equal(np.sort(order), np.arange(N))
  assert prompt.shape == (N // size,)
  if found:
    of_family = np.repeat(kinds[prompt], size)
    np.testing.assert_array_equal(
      of_family[~idle[order]], kinds[order][~idle[order]]
    )
