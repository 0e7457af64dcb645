"""A critic: the same decoder with a scalar head."""

import jax.numpy as jnp

from agentrl import mesh
from agentrl.nn import layers, transformer
from agentrl.types import Module, Outputs, Rows


def module(shape: transformer.Shape, heads: int = 1) -> Module:
  """Values of the state before each token.

  apply(params, rows, needs) -> Outputs.value [N, T, heads]: value[n, t] has
  seen the tokens before t only, aligned like a log-prob.
  """
  head = mesh.Param((shape.width, heads), ('embed', None), _zeros)

  def apply(params, rows: Rows, needs: tuple[str, ...]) -> Outputs:
    hidden = transformer.forward(shape, params, rows.tokens, rows.seg)
    before = jnp.concatenate(
      [jnp.zeros_like(hidden[:, :1]), hidden[:, :-1]], axis=1
    )
    w = mesh.place(params['value'], None, None)
    value = layers.dense(before, w, transformer.EMBED, (None,))
    return Outputs(value=value.astype(jnp.float32))

  specs = {**transformer.specs(shape), 'value': head}
  return Module(specs=specs, apply=apply)


def _zeros(key, shape):
  return jnp.zeros(shape)
