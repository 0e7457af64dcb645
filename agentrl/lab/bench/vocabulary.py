"""Vocabulary benchmarks of `experiments.bench`: log-probs and divergences.

A log-prob takes 4 products of tokens with a head: 1 forwards, the same again
and 2 backwards. A KL from a teacher takes 6, as the teacher's are made twice
too, and Jensen 8, as it goes over words twice forwards.
"""

import functools

import jax
import jax.numpy as jnp

from agentrl.lab.bench.roofline import FLOAT, KernelWork
from agentrl.lab.bench.sampling import BenchCase, SamplingBenchSize
from agentrl.nn import chunked_divergence, chunked_logprob
from agentrl.nn.chunked_divergence import DivergenceConfig
from agentrl.nn.chunked_logprob import LogprobConfig

BETAS = {'forward_kl': 0.0, 'reverse_kl': 1.0, 'jensen': 0.5}
PRODUCTS = {'logprob': 4, 'forward_kl': 6, 'reverse_kl': 6, 'jensen': 8}


def divergences(size: SamplingBenchSize, data: str) -> dict[str, BenchCase]:
  """Times value and gradient over all words, every token of rows wanted."""
  del data
  n, t, words, width = (
    size.rows,
    size.tokens,
    size.shape.vocab,
    size.shape.width,
  )
  key = jax.random.key
  h, teacher_h = jax.random.normal(key(0), (2, n, t, width))
  head, teacher_head = jax.random.normal(key(1), (2, words, width))
  # Logits of a few nats.
  head, teacher_head = 3 * head / width**0.5, 3 * teacher_head / width**0.5
  tokens = jax.random.randint(key(2), (n, t), 0, words)
  wanted = jnp.ones((n, t), bool)

  def loss(h, head, name: str):
    if name in BETAS:
      each = chunked_divergence.token_divergence(
        DivergenceConfig(BETAS[name]), h, head, teacher_h, teacher_head, wanted
      )
    else:
      c = LogprobConfig(('logp',))
      each = chunked_logprob.token_logprobs(c, h, head, tokens, wanted)['logp']
    return jnp.mean(each)

  out = {}
  for name, products in PRODUCTS.items():
    f = jax.jit(jax.value_and_grad(functools.partial(loss, name=name), (0, 1)))
    used = f.lower(h, head).compile().memory_analysis()
    assert used is not None
    held = used.temp_size_in_bytes + used.output_size_in_bytes
    text = f'{n} rows of {t}, {words} words, {held / 1e6:.4g} MB'
    # The heads are read once a product, whatever is kept of them.
    work = KernelWork(
      2 * products * n * t * words * width, products * FLOAT * words * width
    )
    out[f'vocab_{name}'] = BenchCase(
      text,
      functools.partial(f, h, head),
      (work,),
      {'tokens': n * t},
      base='' if name == 'logprob' else 'vocab_logprob',
    )
  return out
