"""Cost of a divergence over all words, against that of log-probs.

  python -m agentrl.lab.bench.divergence [WORDS [ROWS [TOKENS [WIDTH]]]]

Value and gradient with respect to hidden states [ROWS, TOKENS, WIDTH] and the
head, every token wanted: `token_logprobs` (log-probs alone) and
`token_divergence` (forward KL, reverse KL, Jensen) from a teacher of the same
size. Memory is what the compiler reserves at that size, temporary and output
bytes; nothing of it runs. Times are of as many rows of TIMED tokens, in turn.

A log-prob takes 4 products of tokens with a head: 1 forwards, the same again
and 2 backwards. A KL takes 6, as the teacher's are made twice too, and Jensen
8, as it goes over words twice forwards: 1.5 and 2 times the operations.
"""

import functools
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from agentrl.lab.bench import harness
from agentrl.nn import chunked_divergence, chunked_logprob
from agentrl.nn.chunked_divergence import DivergenceConfig
from agentrl.nn.chunked_logprob import LogprobConfig
from agentrl.types import Array

TIMED = 64  # tokens of a row
REPEATS = 7
BETAS = {'forward': 0.0, 'reverse': 1.0, 'Jensen': 0.5}
BASE = 'log-prob'


class HeadInputs(NamedTuple):
  """Hidden states and heads of both, as arrays or as their shapes."""

  h: Any  # [N, T, D]
  head: Any  # [V, D]
  teacher_h: Any  # [N, T, D]
  teacher_head: Any  # [V, D]
  tokens: Any  # [N, T] i32


def _logprob(x: HeadInputs) -> Array:
  wanted = jnp.ones(x.tokens.shape, bool)
  c = LogprobConfig(('logp',))
  return chunked_logprob.token_logprobs(c, x.h, x.head, x.tokens, wanted)[
    'logp'
  ]


def _divergence(beta: float, x: HeadInputs) -> Array:
  wanted = jnp.ones(x.tokens.shape, bool)
  return chunked_divergence.token_divergence(
    DivergenceConfig(beta), x.h, x.head, x.teacher_h, x.teacher_head, wanted
  )


VALUES: Mapping[str, Callable[[HeadInputs], Array]] = {BASE: _logprob} | {
  name: functools.partial(_divergence, beta) for name, beta in BETAS.items()
}


def gradient(name: str):
  """Jitted (h, head, the rest) -> mean over tokens, and its gradient."""

  def loss(h, head, x: HeadInputs):
    return jnp.mean(VALUES[name](x._replace(h=h, head=head)))

  return jax.jit(jax.value_and_grad(loss, (0, 1)))


def shapes(words: int, rows: int, tokens: int, width: int) -> HeadInputs:
  real = lambda *size: jax.ShapeDtypeStruct(size, jnp.float32)  # noqa: E731
  h, head = real(rows, tokens, width), real(words, width)
  ids = jax.ShapeDtypeStruct((rows, tokens), jnp.int32)
  return HeadInputs(h, head, h, head, ids)


def drawn(like: HeadInputs) -> HeadInputs:
  """Random inputs of these shapes; logits of a few nats."""
  keys = jax.random.split(jax.random.key(0), len(like))
  x = HeadInputs(
    *(
      jax.random.normal(key, s.shape) for key, s in zip(keys, like, strict=True)
    )
  )
  words, width = like.head.shape
  return x._replace(
    head=x.head * 3 / width**0.5,
    teacher_head=x.teacher_head * 3 / width**0.5,
    tokens=jax.random.randint(keys[-1], like.tokens.shape, 0, words),
  )


def memory(x: HeadInputs) -> dict[str, int]:
  """{name: temporary and output bytes of value and gradient}."""
  out = {}
  for name in VALUES:
    used = gradient(name).lower(x.h, x.head, x).compile().memory_analysis()
    out[name] = used.temp_size_in_bytes + used.output_size_in_bytes
  return out


def seconds(x: HeadInputs, repeats: int) -> dict[str, harness.Spread]:
  """{name: median and range of value and gradient}."""
  calls = {
    name: functools.partial(gradient(name), x.h, x.head, x) for name in VALUES
  }
  return harness.interleaved(calls, repeats)


def main() -> None:
  words, rows, tokens, width = (
    int(x)
    for x in [
      *sys.argv[1:],
      *('151936', '8', '4096', '64')[len(sys.argv) - 1 :],
    ]
  )
  size = shapes(words, rows, tokens, width)
  used, whole = memory(size), 4 * rows * tokens * words
  print(f'{rows} rows of {tokens} tokens, {words:,} words, width {width}')
  for name, x in used.items():
    print(
      f'  {name:8} {x / 1e6:8,.1f} MB, {x / used[BASE]:.2f} of {BASE}, logits'
      f' alone would be {whole / 1e9:,.1f} GB'
    )
  timed = drawn(shapes(words, rows, TIMED, width))
  spreads = seconds(timed, REPEATS)
  print(f'{rows} rows of {TIMED} tokens, as before')
  for name, s in spreads.items():
    print(
      f'  {name:8} {s.median:7.3f} s [{s.low:.3f}, {s.high:.3f}],'
      f' {s.median / spreads[BASE].median:.2f} of {BASE}'
    )


if __name__ == '__main__':
  main()
