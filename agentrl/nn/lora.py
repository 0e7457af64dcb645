"""Low-rank adapters (LoRA, 2106.09685): w + alpha / rank a b, w being frozen.

`attach` lays an adapter beside the matrices that it changes. Products with
them (layers.dense, moe.mix) add (x a) b to x w: a matrix
w + a b is never made, neither forwards nor as a gradient, so that any number
of adapters need one copy of the base. `stack` and `select` put rows of several
adapters into one batch.
"""

import dataclasses
import math
import re
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from flax import struct

from agentrl import mesh
from agentrl.mesh import Param
from agentrl.types import Array, PyTree

# Matrices of a layer that can be adapted -> how many of their axes are inputs.
INPUTS = {'q': 1, 'k': 1, 'v': 1, 'o': 2, 'gate': 1, 'up': 1, 'down': 1}
LEAD = ('layers', 'expert')  # axes that count matrices


@dataclasses.dataclass(frozen=True)
class Lora:
  """Rank, scale and targets of an adapter."""

  rank: int
  alpha: float = 16.0  # a b is multiplied by alpha / rank
  pattern: str = 'q|k|v|o'  # regular expression of whole names in INPUTS

  def __post_init__(self):
    if self.rank < 1:
      raise ValueError(
        f'lora.rank={self.rank} must be at least 1, or 0 in a config for no'
        ' adapter'
      )
    try:
      re.compile(self.pattern)
    except re.error as e:
      raise ValueError(
        f'lora.pattern={self.pattern!r} is no regular expression ({e}); give'
        " one such as 'q|k|v|o'"
      ) from e

  @property
  def scale(self) -> float:
    return self.alpha / self.rank


@struct.dataclass
class Adapted:
  """Matrices w + scale a b, of which a and b are small."""

  w: Array  # [lead..., in..., out...]
  a: Array  # [lead..., in..., rank]
  b: Array  # [lead..., rank, out...]
  scale: float = struct.field(pytree_node=False)

  @property
  def lead(self) -> int:
    """Number of leading axes (layers, experts)."""
    return self.a.ndim + self.b.ndim - 2 - self.w.ndim


@struct.dataclass
class RowAdapted:
  """Matrix and adapters of rows: row n is multiplied by w + scale a_n b_n."""

  w: Array  # [in..., out...]
  a: Array  # [N, in..., rank]
  b: Array  # [N, rank, out...]
  scale: float = struct.field(pytree_node=False)


def is_adapted(x) -> bool:
  return isinstance(x, Adapted)


def is_row_adapted(x) -> bool:
  return isinstance(x, RowAdapted)


def stack(trees: Sequence[PyTree]) -> PyTree:
  """Parameters of several adapters on one base, without leading axes.

  Args:
    trees: alike but for a and b of their adapted matrices
  Returns: the first tree, with row m of what is adapted that of tree m
  """

  def rows(first, *others):
    if not is_adapted(first):
      return first
    every = first, *others
    a, b = (jnp.stack(x) for x in ([x.a for x in every], [x.b for x in every]))
    return RowAdapted(first.w, a, b, first.scale)

  return jax.tree.map(rows, *trees, is_leaf=is_adapted)


def select(params: PyTree, adapter_N: Array) -> PyTree:
  """Gives row n the adapter of that number, of `stack`; others: unchanged."""
  return jax.tree.map(
    lambda x: (
      x.replace(a=x.a[adapter_N], b=x.b[adapter_N]) if is_row_adapted(x) else x
    ),
    params,
    is_leaf=is_row_adapted,
  )


def specs(c: Lora, layers: dict[str, Param]) -> dict[str, dict[str, Param]]:
  """Parameters of an adapter: {name of a matrix: {'a', 'b'}}.

  b begins at zero, so that the adapted model begins as the base.

  Args:
    layers: specs of the base's layers (nn/config.py)
  Raises: ValueError if the pattern names none of its matrices.
  """
  names = [name for name in layers if name in INPUTS]
  chosen = [name for name in names if re.fullmatch(c.pattern, name)]
  if not chosen:
    raise ValueError(
      f'lora.pattern={c.pattern!r} matches no matrix of the model; it has'
      f" {tuple(names)}, so write for example 'q|v'"
    )
  return {name: _sides(c, name, layers[name]) for name in chosen}


def _sides(c: Lora, name: str, w: Param) -> dict[str, Param]:
  """Specs of the two sides of what is added to w."""
  lead = sum(axis in LEAD for axis in w.axes)
  cut = lead + INPUTS[name]
  a, b = _cut(w.shape, lead, cut, c.rank)
  axes_a, axes_b = _cut(w.axes, lead, cut, None)
  end = math.prod(w.shape[lead:cut]) ** -0.5  # as PEFT begins

  def uniform(key, shape):
    return jax.random.uniform(key, shape, minval=-end, maxval=end)

  zeros = jax.nn.initializers.zeros
  return {'a': Param(a, axes_a, uniform), 'b': Param(b, axes_b, zeros)}


def _cut(axes: tuple, lead: int, cut: int, between) -> tuple[tuple, tuple]:
  """Splits per-axis values of w into those of a and of b."""
  return (*axes[:cut], between), (*axes[:lead], between, *axes[cut:])


def attach(c: Lora, params: PyTree, adapter: PyTree) -> PyTree:
  """The decoder's parameters with the adapter beside them; nothing is copied.

  Raises: ValueError for an adapter of another base.
  """
  layers = dict(params['layers'])
  for name, sides in adapter.items():
    if name not in layers:
      raise ValueError(
        f'the adapter changes {name!r} and the model has {tuple(layers)}; it'
        ' belongs to another base'
      )
    layers[name] = x = Adapted(layers[name], scale=c.scale, **sides)
    want = _cut(x.w.shape, x.lead, x.a.ndim - 1, c.rank)
    if (x.a.shape, x.b.shape) != want:
      raise ValueError(
        f'the adapter of {name!r} has shapes {x.a.shape} and {x.b.shape}, and'
        f' for a matrix {x.w.shape} at lora.rank={c.rank} they are {want[0]}'
        f' and {want[1]}; it belongs to another base or rank'
      )
  return {**params, 'layers': layers}


def merge(params: PyTree) -> PyTree:
  """Plain parameters: every adapted matrix becomes w + scale a b.

  What is not adapted is the same array; the others are new.
  """
  return jax.tree.map(
    lambda x: _sum(x) if is_adapted(x) else x, params, is_leaf=is_adapted
  )


def _sum(x: Adapted) -> Array:
  rank = x.w.ndim
  cut = x.a.ndim - 1
  a, b = _cut(tuple(range(rank)), x.lead, cut, rank)
  added = jnp.einsum(x.a, a, x.b, b, range(rank), precision='highest')
  return x.w + x.scale * added


def beside(params: PyTree, specs: PyTree) -> PyTree:
  """The specs, as a tree of the parameters' form: some may be adapted."""

  def sides(p: Param, x):
    if not is_adapted(x):
      return p
    a, b = _cut(p.axes, x.lead, x.a.ndim - 1, None)
    return x.replace(w=p, a=p._replace(axes=a), b=p._replace(axes=b))

  return jax.tree.map(sides, specs, params, is_leaf=mesh.is_param)


def gather(params: PyTree, specs: PyTree) -> PyTree:
  """mesh.gather_params, of parameters some of which may be adapted."""
  return mesh.gather_params(params, beside(params, specs))
