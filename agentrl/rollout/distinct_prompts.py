"""Prompts that are equal in several slots are read once, and may be held once.

Members of a group begin alike, and a turn that is read by itself (history
'turn') is often a state that others are in. What a decoder makes of a prompt
depends on its tokens alone.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from agentrl.model import fold
from agentrl.types import Array

SHARE = 8  # of the slots are read at a time, at the least
TOKENS = 512  # that are read at a time, about: fewer make small products

# (caches of S slots, tokens [S, C], last [S]) -> hidden [S, 1, D], caches
Reader = Callable[[Any, Array, Array], tuple[Array, Any]]


def classes(tokens_NC: Array, length_N: Array) -> tuple[Array, Array, Array]:
  """Numbers classes of equal prompts in the order of `fold.order`.

  Returns: class of each prompt [N] i32, a prompt of each class [N] i32 (behind
    the last one: any), number of classes
  """
  n, c = tokens_NC.shape
  index = jnp.arange(c, dtype=jnp.int32)
  seg = jnp.where(index[None] < length_N[:, None], 0, -1)
  order = fold.order(tokens_NC, seg, jnp.ones(n, bool))
  begun, length = fold.shared(tokens_NC[order], seg[order]), length_N[order]
  before = jnp.concatenate([length[:1], length[:-1]])
  new = (begun < length) | (length != before)
  of = jnp.cumsum(new.at[0].set(False), dtype=jnp.int32)
  first = jnp.zeros(n, jnp.int32).at[of].set(order)
  return jnp.zeros(n, jnp.int32).at[order].set(of), first, of[-1] + 1


class Families(NamedTuple):
  """Slots in an order in which every W of them have one prompt."""

  order: Array  # [N] i32  slots, family by family
  prompt: Array  # [F] i32  a slot whose prompt is that of the family
  found: Array  # [] bool  there is such an order: else this is none


def families(
  tokens_NC: Array, length_N: Array, idle_N: Array, size: int
) -> Families:
  """Finds families of `size` slots with equal prompts, if all slots are in one.

  Idle slots take any prompt: they fill the families that lack members.
  """
  n = length_N.shape[0]
  of, first, _ = classes(tokens_NC, length_N)
  count = jnp.zeros(n, jnp.int32).at[of].add(~idle_N)
  wanted = jnp.cumsum(-count % size)  # idle slots, by the classes up to this
  rank = jnp.cumsum(idle_N) - 1
  filled = jnp.searchsorted(wanted, rank, side='right')
  # Those that nobody wants are families of their own: any prompt will do.
  of = jnp.where(idle_N, jnp.minimum(filled, n - 1), of)
  order = jnp.argsort(of, stable=True).astype(jnp.int32)
  each = of[order].reshape(-1, size)
  return Families(order, first[each[:, 0]], jnp.all(each == each[:, :1]))


def read(
  reader: Reader, blank: Any, tokens_NC: Array, length_N: Array
) -> tuple[Array, Any]:
  """Returns hidden states after each prompt, and the caches of all slots.

  Args:
    blank: caches of N slots with room for C positions, arrays [N, ...], which
      are written over
    length_N: i32
  Returns: [N, 1, D], caches
  """
  n, c = tokens_NC.shape
  size = min(n, max(-(-n // SHARE), -(-TOKENS // c)))
  of, first, count = classes(tokens_NC, length_N)
  rounds = (count + size - 1) // size
  part = jax.tree.map(lambda x: jnp.zeros_like(x[:size]), blank)

  def some(i):
    """Returns the hidden states and caches of the classes from i * size on."""
    at = jnp.minimum(i * size + jnp.arange(size), n - 1)
    prompt = first[at]
    last = jnp.maximum(length_N[prompt] - 1, 0)
    return at, *reader(part, tokens_NC[prompt], last)

  def step(i, carry):
    at, *new = some(i)
    return jax.tree.map(lambda old, x: old.at[at].set(x), carry, tuple(new))

  like = jax.eval_shape(lambda: some(0)[1])
  hidden = jnp.zeros((n, *like.shape[1:]), like.dtype)
  carry = jax.lax.fori_loop(0, rounds, step, (hidden, blank))
  return jax.tree.map(lambda x: x[of], carry)
