"""A critic: the same decoder with value heads."""

import jax
import jax.numpy as jnp

from agentrl import mesh
from agentrl.domain import OneOf
from agentrl.model import fold, qk_clip
from agentrl.model.fold import FoldedRows
from agentrl.nn import layers, transformer
from agentrl.types import Array, Module, Outputs, Rows

TRUNKS = ('learned', 'stopped')


def module(
  shape: transformer.DecoderConfig, heads: int = 1, trunk: str = 'learned'
) -> Module:
  """Values the state before each token.

  apply(params, rows, needs) -> Outputs.value [N, T, heads]: value[n, t] has
  seen the tokens before t only, aligned like a log-prob.

  Args:
    trunk: 'stopped' lets no gradient into the decoder: the heads stand on the
      features it has.
  """
  OneOf(*TRUNKS).check('trunk', trunk)

  def learned(hidden):
    return jax.lax.stop_gradient(hidden) if trunk == 'stopped' else hidden

  def apply(params, rows: Rows, needs: tuple[str, ...]) -> Outputs:
    if needs == qk_clip.NEEDS:
      return qk_clip.outputs(shape, params, rows)
    if isinstance(rows, FoldedRows):
      x = heads_of(params, learned(fold.read(shape, params, rows)))
      return Outputs(value=fold.before_each(x, rows.fold))
    hidden = transformer.forward(shape, params, rows.tokens, rows.seg)
    return Outputs(value=read(params, learned(hidden)))

  return Module(
    specs=transformer.specs(shape) | specs(shape, heads), apply=apply
  )


def specs(
  shape: transformer.DecoderConfig, heads: int
) -> dict[str, mesh.Param]:
  """Returns the heads' parameters."""
  zeros = jax.nn.initializers.zeros
  return {'value': mesh.Param((shape.width, heads), ('embed', None), zeros)}


def read(params, hidden_NTD: Array) -> Array:
  """Reads values [N, T, heads] of what the decoder knew before each token."""
  before = jnp.concatenate(
    [jnp.zeros_like(hidden_NTD[:, :1]), hidden_NTD[:, :-1]], axis=1
  )
  return heads_of(params, before)


def heads_of(params, hidden_NTD: Array) -> Array:
  """Returns the heads' values [N, T, heads] of hidden states."""
  w = mesh.with_logical_sharding(params['value'], None, None)
  value = layers.dense(hidden_NTD, w, transformer.EMBED, (None,))
  return value.astype(jnp.float32)
