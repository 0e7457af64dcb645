"""Blocks of words and tokens against all logits at once, in float64."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl import mesh
from agentrl.nn import chunked_logprob
from agentrl.nn.chunked_logprob import NAMES, LogprobConfig

NIGHTLY = pytest.mark.nightly
N, T, D, V = 4, 6, 6, 24


def example(seed: int = 0, size: float = 3.0):
  """h, head [V, D], tokens, wanted, and a cotangent of each output."""
  r = np.random.default_rng(seed)
  h = size * r.normal(size=(N, T, D))
  head = r.normal(size=(V, D))
  tokens = r.integers(0, V, (N, T)).astype(np.int32)
  tokens[0, :2] = 0, V - 1
  wanted = r.random((N, T)) < 0.6
  wanted[0, :2] = True
  bars = {name: r.normal(size=(N, T)) for name in NAMES}
  return h, head, tokens, wanted, bars


def dense(c: LogprobConfig, h, head, tokens, wanted, xp=np):
  """The definitions, of all words at once."""
  y = h @ head.T
  z = c.cap * xp.tanh(y / c.cap) if c.cap else y
  x = z / c.temperature
  x = x - xp.max(x, axis=-1, keepdims=True)
  p = xp.exp(x) / xp.sum(xp.exp(x), axis=-1, keepdims=True)
  log_p = x - xp.log(xp.sum(xp.exp(x), axis=-1, keepdims=True))
  chosen = xp.take_along_axis(log_p, tokens[..., None], -1)[..., 0]
  entropy = -xp.sum(p * log_p, axis=-1)
  out = chosen, entropy, xp.sum(p * p, axis=-1)
  out = dict(zip(NAMES, out, strict=True))
  return {k: xp.where(wanted, x, 0) for k, x in out.items() if k in c.needs}


def weighted(out, bars):
  return sum(jnp.sum(x * bars[k]) for k, x in out.items())


@functools.partial(jax.jit, static_argnums=0)
def run(c: LogprobConfig, h, head, tokens, wanted, bars):
  def loss(h, head):
    out = chunked_logprob.token_logprobs(c, h, head, tokens, wanted)
    return weighted(out, bars), out

  (_, out), bar = jax.value_and_grad(loss, (0, 1), has_aux=True)(h, head)
  return out, *bar


def both(c: LogprobConfig, h, head, tokens, wanted, bars):
  """Outputs, and cotangents of h and of the head as [V, D]."""
  turn = (lambda w: w) if c.axis == 0 else jnp.transpose
  h, head, bars = jax.tree.map(jnp.float32, (h, head, bars))
  out, dh, dhead = run(c, h, turn(head), tokens, wanted, bars)
  return out, dh, turn(dhead)


CASES = [
  LogprobConfig(NAMES, 1.0, 0.0, 0, 5, 7),  # neither divides
  LogprobConfig(NAMES, 0.7, 4.0, 1, 100, 9),  # capped; one round of tokens
  LogprobConfig(('entropy',), 1.3, 0.0, 1, 1, V),  # all words at once
  LogprobConfig(('logp',), 1.0, 2.0, 0, 4, 1),
  LogprobConfig(('sum_sq_prob', 'logp'), 0.5, 0.0, 0),  # the blocks by default
]


@pytest.mark.parametrize('c', CASES, ids=str)
def test_values_are_those_of_all_logits(c):
  *given_, bars = example()
  out, _, _ = both(c, *given_, bars)
  want = dense(c, *given_)
  assert out.keys() == set(c.needs)
  for name, x in out.items():
    np.testing.assert_allclose(x, want[name], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize('c', CASES, ids=str)
def test_gradients_are_central_differences(c):
  """In float64, of the definitions, along random directions."""
  h, head, tokens, wanted, bars = example(1, 1.0)
  _, dh, dw = both(c, h, head, tokens, wanted, bars)
  r = np.random.default_rng(2)

  def loss(h, w):
    out = dense(c, h, w, tokens, wanted)
    return sum(np.sum(x * bars[k]) for k, x in out.items())

  for _ in range(3):
    a, b, eps = r.normal(size=h.shape), r.normal(size=head.shape), 1e-5
    far = [loss(h + s * eps * a, head + s * eps * b) for s in (1, -1)]
    slope = np.sum(a * np.asarray(dh)) + np.sum(b * np.asarray(dw))
    np.testing.assert_allclose(
      slope, (far[0] - far[1]) / (2 * eps), rtol=1e-4, atol=1e-4
    )


@pytest.mark.nightly
@settings(max_examples=20, deadline=None)
@given(
  words=st.integers(1, V + 3),
  tokens=st.integers(1, N * T + 3),
  axis=st.sampled_from([0, 1]),
  cap=st.sampled_from([0.0, 5.0]),
)
def test_no_block_size_changes_anything(words, tokens, axis, cap):
  c = LogprobConfig(NAMES, 0.8, cap, axis, tokens, words)
  *given_, bars = example(3)
  got = both(c, *given_, bars)
  h, head, ids, wanted = given_
  bars = jax.tree.map(jnp.float32, bars)

  def loss(h, w):
    out = dense(c, h, w, ids, wanted, xp=jnp)
    return weighted(out, bars), out

  dense_ = jax.jit(jax.value_and_grad(loss, (0, 1), has_aux=True))
  (_, out), (dh, dw) = dense_(jnp.float32(h), jnp.float32(head))
  chex.assert_trees_all_close(got, (out, dh, dw), rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize('axis', [0, pytest.param(1, marks=NIGHTLY)])
@pytest.mark.parametrize(
  ('sizes', 'explicit'),
  [
    ({'fsdp': 2, 'tensor': 4}, False),
    ({'sequence': 2, 'tensor': 4}, True),
    pytest.param({'fsdp': 2, 'tensor': 4}, True, marks=NIGHTLY),
    pytest.param({'data': 2, 'fsdp': 2, 'tensor': 2}, True, marks=NIGHTLY),
  ],
  ids=str,
)
def test_words_split_over_devices_are_the_same(sizes, explicit, axis):
  """Rows, tokens, copies and words over devices; blocks that divide none."""
  c = LogprobConfig(NAMES, 0.8, 5.0, axis, 5, 4)
  *given_, bars = example(4)
  want = both(c, *given_, bars)
  made = mesh.make(sizes, explicit=explicit)
  with jax.set_mesh(made):
    rows = jax.NamedSharding(made, mesh.spec('batch', None))
    put = functools.partial(jax.device_put, device=rows)
    h, head, tokens, wanted = given_
    bars = jax.tree.map(lambda x: put(x), bars)
    got = both(c, put(h), head, put(tokens), put(wanted), bars)
  chex.assert_trees_all_close(
    jax.tree.map(np.asarray, got), want, rtol=1e-5, atol=1e-5
  )


def test_words_of_no_chance_stay_finite():
  """Logits of ±1000, and a batch in which nobody wants anything."""
  *given_, bars = example(5, 1000.0)
  c = LogprobConfig(NAMES, 1.0, 0.0, 0, 5, 7)
  chex.assert_tree_all_finite(both(c, *given_, bars))
  h, head, tokens, wanted = given_
  out = both(c, h, head, tokens, np.zeros_like(wanted), bars)
  assert all(not np.any(x) for x in jax.tree.leaves(out))


def test_half_precision_sums_in_full():
  """bfloat16 hidden states: exact for the numbers they round to."""
  h, head, tokens, wanted, _ = example(6)
  c = LogprobConfig(NAMES, 1.0, 0.0, 0, 5, 7)
  half = lambda x: jnp.asarray(x, jnp.bfloat16)  # noqa: E731
  out = jax.jit(functools.partial(chunked_logprob.token_logprobs, c))(
    half(h), jnp.float32(head), tokens, wanted
  )
  rounded = (np.asarray(half(x), np.float64) for x in (h, head))
  want = dense(c, *rounded, tokens, wanted)
  for name, x in out.items():
    assert x.dtype == jnp.float32
    np.testing.assert_allclose(x, want[name], rtol=2e-5, atol=2e-5)
