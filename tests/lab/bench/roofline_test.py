"""The work of a figure, counted by hand and by the compiler."""

import jax
import jax.numpy as jnp
import numpy as np

from agentrl import mesh
from agentrl.lab.bench import roofline
from agentrl.nn import transformer

SMALL = transformer.DecoderConfig(
  vocab=10, width=4, layers=3, heads=2, kv_heads=1, head_dim=2, mlp=5
)
WIDE = transformer.DecoderConfig(
  vocab=128, width=64, layers=2, heads=4, kv_heads=2, head_dim=16, mlp=160
)


def test_weights_by_hand():
  # q, o: 4 x 4 each; k, v: 4 x 2 each; gate, up, down: 4 x 5 each.
  assert roofline.body(SMALL) == 3 * (2 * 16 + 2 * 8 + 3 * 20)


def test_pairs_by_hand():
  # 2 tokens after 3 others: 4 + 5 keys; 3 tokens first: 1 + 2 + 3.
  assert roofline.pairs(np.array([3, 0]), np.array([2, 3])) == 9 + 6


def test_speaking_by_hand():
  prefill, decode = roofline.speaking(
    SMALL, np.array([0]), np.array([2]), np.array([3]), slots=1
  )
  weights, head = 2 * 324, 2 * 4 * 10
  pair = 4 * 3 * 2 * 2  # scores and sums: 2 products, 3 layers, 2 heads of 2
  assert prefill.operations == 2 * weights + 3 * pair + head
  # Two of the three tokens said are read back, at positions 2 and 3.
  assert decode.operations == 2 * weights + (3 + 4) * pair + 2 * head
  key = 4 * 2 * 3 * 1 * 2  # bytes of a key and a value in 3 layers
  size = 4 * mesh.count(transformer.specs(SMALL))
  assert prefill.bytes == size + 2 * key
  assert decode.bytes == 2 * size + (3 + 4) * key
  assert [prefill.few, decode.few] == [False, True]


def test_forward_pass_against_the_compiler():
  n, t = 4, 8
  params = mesh.init(transformer.specs(WIDE), jax.random.key(0))
  tokens = jnp.ones((n, t), jnp.int32)

  def run(params, tokens):
    hidden = transformer.forward(WIDE, params, tokens, jnp.zeros_like(tokens))
    return transformer.logits(params, hidden)

  compiled = jax.jit(run).lower(params, tokens).compile()
  own = roofline.reading(WIDE, np.zeros(n), np.full(n, t), heads=n * t)
  # The compiler also counts norms, rotations, softmax and masked pairs.
  assert own < compiled.cost_analysis()['flops'] < 1.1 * own


def test_update_is_three_forward_passes_of_each_role():
  length = np.array([5, 0, 3])
  forward = roofline.reading(SMALL, 0 * length, length, heads=4)
  (two,) = roofline.updating(SMALL, length, 4, roles=2)
  assert two.operations == 2 * 3 * forward


def test_bound_takes_the_slower_of_products_and_copies():
  rates = roofline.Rates(large=100.0, few=10.0, copy=50.0)
  parts = (
    roofline.KernelWork(operations=200.0, bytes=50.0),  # 2 s of products
    roofline.KernelWork(
      operations=20.0, bytes=250.0, few=True
    ),  # 5 s of copies
  )
  assert roofline.bound(parts, rates) == 2 + 5
