"""Rows of tokens as a model reads them."""

import jax.numpy as jnp

from agentrl.types import Rows


def make(tokens, sampled, seg=None, **fields) -> Rows:
  """Rows of one message each, of a trajectory of its own.

  Args:
    tokens: [N, T]
    sampled: [N, T], trained on with weight 1
    seg: [N, T], -1 padding; default: one segment without padding
    fields: others of Rows than by default
  """
  tokens, sampled = jnp.asarray(tokens, jnp.int32), jnp.asarray(sampled, bool)
  zeros = jnp.zeros(tokens.shape, jnp.int32)
  seg = zeros if seg is None else jnp.asarray(seg, jnp.int32)
  row = jnp.arange(len(tokens), dtype=jnp.int32)[:, None]
  return Rows(
    tokens=tokens,
    seg=seg,
    traj=jnp.where(seg >= 0, row, -1),
    turn=jnp.where(sampled, 0, -1),
    span=zeros.astype(jnp.int8),
    sampled=sampled,
    weight=sampled.astype(jnp.float32),
    logp=zeros.astype(jnp.float32),
    version=zeros,
  ).replace(**fields)
