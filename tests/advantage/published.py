"""Published methods as chains of links, and the loops that they must equal."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from agentrl.advantage import chain
from tests import batches
from tests.batches import links


class Method(NamedTuple):
  """want(story) -> [trajectory][turn] advantages of sampled tokens."""

  want: Callable
  streams: dict
  coef: dict | None = None
  post: tuple = ()


def single(want, *names, post=()) -> Method:
  """A method of one stream."""
  return Method(want, {'a': names}, post=post)


def credits(methods, batch, signals):
  """{name: (advantages of tokens, weights)} of all methods."""
  out = {}
  for name, method in methods.items():
    streams = {k: links(*v) for k, v in method.streams.items()}
    credit, _ = chain.advantage(
      streams, method.coef or {}, links(*method.post), batch, signals
    )
    out[name] = chain.token_advantage(credit, batch.rows), credit.weight
  return out


def run(methods, laid, explicit=False):
  """`credits` of a story that is laid, compiled; on a mesh if `explicit`."""

  def f(batch, signals):
    return credits(methods, batch, signals)

  args = laid.batch, laid.signals
  if explicit:
    return batches.on_a_mesh(f, args, laid.batch.rows.tokens.shape)
  return jax.device_get(jax.jit(f)(*args))


def check(got, want, story, laid):
  """The advantages are those of the loops, and 0 where nobody sampled."""
  np.testing.assert_allclose(
    batches.flat(batches.read(got, story, laid)),
    batches.flat(want),
    rtol=1e-9,
    atol=1e-12,
  )
  assert np.all(np.asarray(got)[~laid.batch.rows.sampled] == 0)
