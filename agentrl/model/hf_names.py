"""Names and layouts of our parameters in Hugging Face checkpoints."""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from agentrl import mesh
from agentrl.nn import transformer


class HFTensor(NamedTuple):
  """Name and axis order of one of our parameters in a checkpoint.

  Our leading axes (layer, expert) fill the {} of the name. `order` lists, for
  each axis of the checkpoint tensor, our axes that form it: ((1, 2), (0,)) is
  its [heads * head_dim, width] of our [width, heads, head_dim].
  """

  name: str
  order: tuple[tuple[int, ...], ...]

  @property
  def lead(self) -> int:
    return self.name.count('{}')

  def shape(self, ours: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the checkpoint shape of our shape without leading axes."""
    return tuple(math.prod(ours[a] for a in axes) for axes in self.order)

  def give(self, x: np.ndarray) -> np.ndarray:
    """Converts our array, without leading axes, to the checkpoint's."""
    return x.transpose(sum(self.order, ())).reshape(self.shape(x.shape))

  def take(self, x: np.ndarray, ours: tuple[int, ...]) -> np.ndarray:
    """Converts a checkpoint tensor to our shape without leading axes."""
    axes = sum(self.order, ())
    return x.reshape([ours[a] for a in axes]).transpose(np.argsort(axes))

  def part(self, spans: list[range], ours: tuple[int, ...]) -> tuple:
    """Returns the checkpoint slices that hold these spans of our array.

    Only the first of the axes that form a checkpoint axis may be cut.
    """

    def one(axes):
      rest = math.prod(ours[a] for a in axes[1:])
      return slice(spans[axes[0]].start * rest, spans[axes[0]].stop * rest)

    return tuple(one(axes) for axes in self.order)


_SAME, _MATRIX = ((0,),), ((1,), (0,))
_ATTENTION = {
  'attn_norm': ('input_layernorm.weight', _SAME),
  'q': ('self_attn.q_proj.weight', ((1, 2), (0,))),
  'k': ('self_attn.k_proj.weight', ((1, 2), (0,))),
  'v': ('self_attn.v_proj.weight', ((1, 2), (0,))),
  'o': ('self_attn.o_proj.weight', ((2,), (0, 1))),
  'q_bias': ('self_attn.q_proj.bias', ((0, 1),)),
  'k_bias': ('self_attn.k_proj.bias', ((0, 1),)),
  'v_bias': ('self_attn.v_proj.bias', ((0, 1),)),
  'o_bias': ('self_attn.o_proj.bias', _SAME),
  'q_norm': ('self_attn.q_norm.weight', _SAME),
  'k_norm': ('self_attn.k_norm.weight', _SAME),
  'mlp_norm': ('post_attention_layernorm.weight', _SAME),
}
_POST_NORM = {
  'attn_post_norm': ('post_attention_layernorm.weight', _SAME),
  'mlp_norm': ('pre_feedforward_layernorm.weight', _SAME),
  'mlp_post_norm': ('post_feedforward_layernorm.weight', _SAME),
}
_MLP = {
  'gate': ('mlp.gate_proj.weight', _MATRIX),
  'up': ('mlp.up_proj.weight', _MATRIX),
  'down': ('mlp.down_proj.weight', _MATRIX),
  'gate_bias': ('mlp.gate_proj.bias', _SAME),
  'up_bias': ('mlp.up_proj.bias', _SAME),
  'down_bias': ('mlp.down_proj.bias', _SAME),
}
_EXPERTS = {
  'router': ('mlp.gate.weight', _MATRIX),
  'gate': ('mlp.experts.{}.gate_proj.weight', _MATRIX),
  'up': ('mlp.experts.{}.up_proj.weight', _MATRIX),
  'down': ('mlp.experts.{}.down_proj.weight', _MATRIX),
}


def names(shape: transformer.DecoderConfig) -> dict[str, Any]:
  """Builds a tree of `HFTensor`, one per parameter of the decoder."""
  table = _ATTENTION | (_EXPERTS if shape.experts else _MLP)
  table |= _POST_NORM if shape.post_norm else {}
  return {
    'embed': HFTensor('model.embed_tokens.weight', ((0,), (1,))),
    'norm': HFTensor('model.norm.weight', _SAME),
    'head': HFTensor('lm_head.weight', _MATRIX),
    'layers': {
      ours: HFTensor('model.layers.{}.' + name, order)
      for ours, (name, order) in table.items()
    },
  }


class Entry(NamedTuple):
  """Parameter of ours with its place in the checkpoint."""

  path: tuple[str, ...]  # in the tree
  ours: mesh.Param
  theirs: HFTensor

  @property
  def tail(self) -> tuple[int, ...]:
    """Our shape without leading axes."""
    return self.ours.shape[self.theirs.lead :]

  def pieces(self) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yields (checkpoint name, our leading index) of each tensor."""
    for at in np.ndindex(*self.ours.shape[: self.theirs.lead]):
      yield self.theirs.name.format(*at), at


def entries(shape: transformer.DecoderConfig) -> list[Entry]:
  """Lists entries of all parameters, in the order of the tree's leaves.

  Raises: ValueError for a shape that no family has.
  """
  if shape.positions:
    raise ValueError(
      'model.positions must be 0, since no family has learned positions, got'
      f' {shape.positions}'
    )
  specs, table = transformer.specs(shape), names(shape)
  leaves = jax.tree_util.tree_leaves_with_path(specs, is_leaf=mesh.is_param)
  out = []
  for keys, ours in leaves:
    path = tuple(key.key for key in keys)
    theirs: Any = table
    for name in path:
      theirs = theirs[name]
    out.append(Entry(path, ours, theirs))
  return out
