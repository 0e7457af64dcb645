"""Kernels by parts of the model."""

import jax
import jax.numpy as jnp
import pytest

from agentrl.lab.bench import profile
from agentrl.lab.bench.profile import Part
from agentrl.lab.capacity.compiled.hlo import Instruction
from agentrl.nn import decode, transformer
from agentrl.rollout import sampling
from tests.nn import decoders


def test_kernels_are_summed_by_part_and_direction():
  def made(op, source):
    return Instruction('x', 'f32[2]', op, f'metadata={{op_name="{source}"}}')

  backward = 'jit(f)/transpose(jvp(attention))/while/body/mul'
  instructions = {
    ('f', 'a'): made('fusion', 'jit(f)/while/body/attention/cache/scatter'),
    ('f', 'b'): made('fusion', backward),
    ('f', 'loop'): made('while', 'jit(f)/mlp/while'),  # its kernels are counted
    ('g', 'a'): made('copy', 'jit(g)/attentions/copy'),
  }
  events = [
    ('f', 'a', 1.0),
    ('f', 'a', 2.0),
    ('f', 'b', 4.0),
    ('f', 'loop', 9.0),
    ('g', 'a', 0.25),
    ('g', 'of no program', 0.25),
  ]
  assert profile.parts(events, instructions) == [
    Part('attention', True, 1, 4.0),
    Part('cache', False, 2, 3.0),
    Part('other', False, 2, 0.5),
  ]


@pytest.mark.slow
def test_a_token_of_the_decoder_names_its_parts():
  shape = decoders.SHAPES['tied']
  params = decode.prepare_decode_params(
    shape, decoders.random_parameters(shape)
  )

  @jax.jit
  def token(params, cache):
    start = jnp.zeros(2, jnp.int32)
    x, cache = decode.forward_with_cache(
      shape, params, cache, start[:, None], start
    )
    logits = transformer.logits(params, x)[:, 0]
    return sampling.draw(
      logits, jax.random.split(jax.random.key(0)), jnp.ones(2)
    )[0], cache

  args = params, decode.empty(shape, 2, 8)
  jax.block_until_ready(token(*args))
  found = profile.of(lambda: token(*args))
  assert {x.name for x in found} >= {'attention', 'mlp', 'draw'}
  assert not any(x.backward for x in found)
  assert sum(x.kernels for x in found if x.name == 'mlp') >= shape.layers
