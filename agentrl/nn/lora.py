"""Low-rank adapters (LoRA, 2106.09685): w + alpha / rank a b, w being frozen.

`attach` pairs an adapter with the matrices that it changes. Their products
(layers.dense, moe.mix) add (x a) b to x w: the matrix w + a b is never
materialised, in the forward pass or the gradient, so any number of adapters
share one copy of the base. `stack` and `select` batch rows of several adapters.
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
        f'lora.rank must be at least 1, or 0 in a config for no adapter, got'
        f' {self.rank}'
      )
    try:
      re.compile(self.pattern)
    except re.error as e:
      raise ValueError(
        "lora.pattern must be a regular expression, such as 'q|k|v|o', got"
        f' {self.pattern!r} ({e})'
      ) from e

  @property
  def scale(self) -> float:
    return self.alpha / self.rank


@struct.dataclass
class Adapted:
  """Matrices w + scale a b with low-rank a and b."""

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
  """Matrix with one adapter per row: row n uses w + scale a_n b_n."""

  w: Array  # [in..., out...]
  a: Array  # [N, in..., rank]
  b: Array  # [N, rank, out...]
  scale: float = struct.field(pytree_node=False)


def is_adapted(x) -> bool:
  return isinstance(x, Adapted)


def is_row_adapted(x) -> bool:
  return isinstance(x, RowAdapted)


def stack(trees: Sequence[PyTree]) -> PyTree:
  """Stacks several adapters of one base, without leading axes.

  Args:
    trees: equal but for a and b of their adapted matrices
  Returns: the first tree, with row m of a and b from tree m
  """

  def rows(first, *others):
    if not is_adapted(first):
      return first
    every = first, *others
    a, b = (jnp.stack(x) for x in ([x.a for x in every], [x.b for x in every]))
    return RowAdapted(first.w, a, b, first.scale)

  return jax.tree.map(rows, *trees, is_leaf=is_adapted)


def select(params: PyTree, adapter_N: Array) -> PyTree:
  """Selects adapter adapter_N[n] of `stack` for row n."""
  return jax.tree.map(
    lambda x: (
      x.replace(a=x.a[adapter_N], b=x.b[adapter_N]) if is_row_adapted(x) else x
    ),
    params,
    is_leaf=is_row_adapted,
  )


def specs(c: Lora, layers: dict[str, Param]) -> dict[str, dict[str, Param]]:
  """Declares the parameters of an adapter: {matrix name: {'a', 'b'}}.

  b starts at zero, so that the adapted model starts as the base.

  Args:
    layers: specs of the base's layers (nn/config.py)
  Raises: ValueError if the pattern names none of its matrices.
  """
  names = [name for name in layers if name in INPUTS]
  chosen = [name for name in names if re.fullmatch(c.pattern, name)]
  if not chosen:
    raise ValueError(
      f'lora.pattern must match at least one of {tuple(names)}, got'
      f" {c.pattern!r}; write for example 'q|v'"
    )
  return {name: _sides(c, name, layers[name]) for name in chosen}


def _sides(c: Lora, name: str, w: Param) -> dict[str, Param]:
  """Declares the two factors added to w."""
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
  """Splits per-axis values of w between a and b."""
  return (*axes[:cut], between), (*axes[:lead], between, *axes[cut:])


def attach(c: Lora, params: PyTree, adapter: PyTree) -> PyTree:
  """Pairs the decoder's parameters with the adapter, without copying.

  Raises: ValueError for an adapter of another base.
  """
  layers = dict(params['layers'])
  for name, sides in adapter.items():
    if name not in layers:
      raise ValueError(
        f'the adapter must change matrices among {tuple(layers)}, got {name!r};'
        ' it belongs to another base'
      )
    layers[name] = x = Adapted(layers[name], scale=c.scale, **sides)
    want = _cut(x.w.shape, x.lead, x.a.ndim - 1, c.rank)
    if (x.a.shape, x.b.shape) != want:
      raise ValueError(
        f'the adapter of {name!r} must have shapes {want[0]} and {want[1]} for'
        f' a matrix {x.w.shape} at lora.rank={c.rank}, got {x.a.shape} and'
        f' {x.b.shape}; it belongs to another base or rank'
      )
  return {**params, 'layers': layers}


def merge(params: PyTree) -> PyTree:
  """Merges adapters: every adapted matrix becomes w + scale a b.

  Other parameters are shared, not copied.
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
  """Expands the specs to the structure of params, some of them adapted."""

  def sides(p: Param, x):
    if not is_adapted(x):
      return p
    a, b = _cut(p.axes, x.lead, x.a.ndim - 1, None)
    return x.replace(w=p, a=p._replace(axes=a), b=p._replace(axes=b))

  return jax.tree.map(sides, specs, params, is_leaf=mesh.is_param)


def gather(params: PyTree, specs: PyTree) -> PyTree:
  """Applies mesh.gather_params to parameters that may be adapted."""
  return mesh.gather_params(params, beside(params, specs))
