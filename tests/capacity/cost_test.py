"""Floating-point operations of a decoder, by hand."""

from agentrl.capacity import cost
from agentrl.nn import transformer

SHAPE = transformer.DecoderConfig(
  vocab=2048, width=128, layers=2, heads=8, kv_heads=4, head_dim=16, mlp=384
)


def test_flops_by_hand():
  d, f, h, g, k = 128, 384, 8, 4, 16
  layer = d * k * (2 * h + 2 * g) + 3 * d * f
  assert cost.matrices(SHAPE) == 2 * layer
  got = cost.pass_flops(SHAPE, tokens=10, pairs=7, scored=3)
  want = 2 * 2 * layer * 10 + 2 * 7 * (4 * h * k) + 3 * 2 * d * 2048
  assert got == want
