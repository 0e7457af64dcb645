"""How much memory a training step of a real size takes, compiled, not run.

0.5B-shaped decoder, 8 rows of 4,096 tokens, one row to a micro-batch
"""

import dataclasses
import math
import re

import jax
import jax.numpy as jnp
import pytest

from agentrl import mesh, optimizer
from agentrl.lab.bench import sampling
from agentrl.lab.capacity.compiled import programs
from agentrl.model import microbatch, policy

SHAPE = dataclasses.replace(sampling.QWEN['0.5B'], attention='chunked')
N, T = 8, 4096
ALLOWED = 1.5e9  # bytes beside parameters, their gradients and moments


def compiled():
  module, rule = policy.module(SHAPE), optimizer.OptimizerConfig()
  params, rows = mesh.abstract(module.specs), programs.rows(N, T)
  opt = jax.eval_shape(lambda p: optimizer.init(rule, p, module.specs), params)

  def loss(out, rows, advantage):
    return jnp.sum(out.logp * advantage - 0.01 * out.entropy), {}

  def step(params, opt, rows, advantage):
    total = microbatch.objective(module.apply, ('entropy', 'logp'), loss)
    grads, _ = microbatch.gradient(total, params, rows, advantage, 1)
    return optimizer.step(rule, grads, opt, params)

  run = jax.jit(step, donate_argnums=(0, 1))
  return mesh.count(module.specs), run.lower(
    params, opt, rows, rows.logp
  ).compile()


def with_vocabulary(text: str) -> set[int]:
  """Numbers per word of all arrays that have an axis of words."""
  found = re.findall(r'\w+\[([\d,]+)\]', text)
  sizes = [[int(x) for x in dims.split(',')] for dims in found]
  return {math.prod(s) // SHAPE.vocab for s in sizes if SHAPE.vocab in s}


@pytest.mark.slow
def test_a_step_fits_and_holds_no_logits():
  count, step = compiled()
  used = step.memory_analysis()
  gradients = 4 * count
  beside = used.temp_size_in_bytes - gradients
  assert 0 < beside < ALLOWED
  # Parameters and moments are donated: the new ones take no room of their own.
  assert used.output_size_in_bytes - used.alias_size_in_bytes < 1e6
  assert with_vocabulary(step.as_text()) == {SHAPE.width}


def test_arrays_of_words_are_found():
  text = 'f32[8,4096,151936]{2,1,0} add(bf16[151936,896] %a, s32[7] %b)'
  assert with_vocabulary(text) == {N * T, SHAPE.width}
