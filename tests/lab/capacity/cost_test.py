"""Floating-point operations of a decoder, by hand."""

import dataclasses

from agentrl.configs import grpo
from agentrl.lab.capacity import cost
from agentrl.nn import transformer
from agentrl.run.algorithm import make_algorithm
from tests.lab.capacity.memory_test import WORK

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


def test_what_is_computed_again_backwards():
  """Nothing, products without weights, or all: 2, then more, then 3 of 3."""
  algorithm = make_algorithm(grpo.get_config(), SHAPE)
  tokens = 16 * 128
  one = cost.pass_flops(SHAPE, tokens, tokens * 129 / 2, 16 * 8)
  products = 2 * cost.matrices(SHAPE) * tokens
  want = {'none': 2 * one, 'dots': 3 * one - products, 'layer': 3 * one}
  _, both = cost.passes(algorithm, WORK)
  for remat, flops in want.items():
    shape = dataclasses.replace(SHAPE, remat=remat)
    assert cost.flops(algorithm, shape, WORK).backward == both * flops
