"""Device mesh: logical axes, their rules, and specs of sharded parameters.

  data      rows of the batch, with a copy of all parameters each
  fsdp      rows as well, and parameters are stored in pieces
  expert    rows as well, and each device has some of the experts
  sequence  the tokens of a row, inside of the decoder
  tensor    heads, and the width of MLPs; words

Model code names logical axes only. `RULES` says which mesh axes store each
of them; while computing, parameters are whole along `embed` (COMPUTE), layer
by layer.

`jax.jit` over a mesh is what used to be called pjit.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from agentrl.runtime import precision

AXES = ('data', 'fsdp', 'expert', 'sequence', 'tensor')

# logical axis -> mesh axes over which arrays are split where they are stored.
RULES = {
  'batch': ('data', 'fsdp', 'expert'),
  'time': ('sequence',),
  'embed': ('fsdp', 'sequence'),
  'heads': ('tensor',),
  'kv_heads': ('tensor',),
  'mlp': ('tensor',),
  'vocab': ('tensor',),
  'expert': ('expert',),
  'layers': (),
  'stored': ('fsdp', 'sequence'),  # `embed`, left in pieces while computing
  'copies': ('data', 'expert'),  # that hold the same piece of it
}
# While computing, these axes belong to rows and their tokens.
COMPUTE = {**RULES, 'embed': ()}
Rules = Mapping[str, tuple[str, ...]]


class Param(NamedTuple):
  """A parameter before it exists."""

  shape: tuple[int, ...]
  axes: tuple[str | None, ...]
  init: Callable[[jax.Array, tuple[int, ...]], jax.Array]
  dtype: Any = jnp.float32


def is_param(x) -> bool:
  return isinstance(x, Param)


def shape_of(section: Any) -> dict[str, int]:
  """Reads the size of each of AXES from the section `mesh` of a config."""
  return {name: getattr(section, name) for name in AXES}


def sizes(shape: Mapping[str, int], devices: int) -> dict[str, int]:
  """Resolves the size of each of AXES: -1 is the rest, missing axes have 1.

  Raises ValueError when the sizes do not fit so many devices.
  """
  unknown = set(shape) - set(AXES)
  if unknown:
    raise ValueError(
      f'mesh axis {sorted(unknown)[0]!r} is unknown; choose from {AXES}'
    )
  wanted = [int(shape.get(a, 1)) for a in AXES]
  if wanted.count(-1) > 1 or any(s == 0 or s < -1 for s in wanted):
    raise ValueError(
      f'mesh {dict(shape)} must have positive sizes and at most one -1'
    )
  fixed = math.prod(s for s in wanted if s != -1)
  if -1 in wanted and devices % fixed:
    raise ValueError(
      f'mesh {dict(shape)} does not divide the {devices} devices at hand;'
      f' choose sizes whose product divides {devices}'
    )
  resolved = {
    a: devices // fixed if s == -1 else s
    for a, s in zip(AXES, wanted, strict=True)
  }
  if math.prod(resolved.values()) > devices:
    raise ValueError(
      f'mesh {resolved} needs {math.prod(resolved.values())} devices and'
      f' {devices} are at hand; make it smaller'
    )
  return resolved


def make(
  shape: Mapping[str, int],
  *,
  explicit: bool = True,
  devices: Sequence[jax.Device] | None = None,
) -> jax.sharding.Mesh:
  """Returns a mesh of AXES sizes (`sizes`) over the first of the devices.

  Args:
    devices: None: those at hand
  """
  devices = jax.devices() if devices is None else devices
  axis_sizes = tuple(sizes(shape, len(devices)).values())
  kind = AxisType.Explicit if explicit else AxisType.Auto
  return jax.make_mesh(
    axis_sizes,
    AXES,
    axis_types=(kind,) * len(AXES),
    devices=devices[: math.prod(axis_sizes)],
  )


def active() -> bool:
  """Returns whether a mesh of AXES has been set by `jax.set_mesh`."""
  return bool(set(AXES) & set(jax.sharding.get_abstract_mesh().axis_names))


def is_explicit() -> bool:
  mesh = jax.sharding.get_abstract_mesh()
  return not mesh.empty and AxisType.Explicit in mesh.axis_types


def spec(*axes: str | None, rules: Rules = COMPUTE):
  """Returns the PartitionSpec of logical axes under the rules."""
  return PartitionSpec(*((a and rules[a]) or None for a in axes))


def num_shards(
  axis: str, shape: Mapping[str, int], rules: Rules = COMPUTE
) -> int:
  """Counts the parts into which a mesh of this shape splits a logical axis."""
  return math.prod(shape[name] for name in rules[axis])


def sharded_axis_or_none(axis: str) -> str | None:
  """Returns the logical axis if several devices share it, else None."""
  return axis if axis_size(axis) > 1 else None


def axis_size(axis: str) -> int:
  """Counts the parts of a logical axis on the mesh that is set; 1 without."""
  if not active():
    return 1
  return num_shards(axis, jax.sharding.get_abstract_mesh().shape)


def with_logical_sharding(x: jax.Array, *axes: str | None) -> jax.Array:
  """Lays x out along the logical axes; the identity without a mesh."""
  if not active():
    return x
  if is_explicit():
    return jax.reshard(x, spec(*axes))
  return jax.lax.with_sharding_constraint(x, spec(*axes))


def pad_to_divisible(x: jax.Array, dim: int, axis: str, filler=0) -> jax.Array:
  """Pads x at the end of a dim until the logical axis divides it."""
  if not sharded_axis_or_none(axis):
    return x
  pad = [(0, 0)] * x.ndim
  pad[dim] = (0, -x.shape[dim] % axis_size(axis))
  return jnp.pad(x, pad, constant_values=filler)


def einsum(formula: str, *args: jax.Array, axes: tuple[str | None, ...]):
  """Computes jnp.einsum, whose result lies along the logical axes."""
  if is_explicit():
    return precision.einsum(formula, *args, out_sharding=spec(*axes))
  return with_logical_sharding(precision.einsum(formula, *args), *axes)


def reshape(x: jax.Array, shape: tuple[int, ...], axes):
  """Returns x.reshape(shape), the result lying along the logical axes."""
  if is_explicit():
    return jnp.reshape(x, shape, out_sharding=spec(*axes))
  return x.reshape(shape)


def gather_params(params, specs):
  """Gathers parameters as they are computed with: whole along the data axis."""
  if not active():
    return params
  return jax.tree.map(
    lambda s, p: with_logical_sharding(p, *s.axes),
    specs,
    params,
    is_leaf=is_param,
  )


def auto(f: Callable, *out_axes: tuple[str | None, ...] | None) -> Callable:
  """Wraps f so that the compiler chooses shardings inside.

  Under explicit axes plain indexing, segment sums and sorts raise; inside
  `auto` they do not. out_axes: one tuple of logical axes (None: replicated)
  for each result of f, or a single one for all of them.
  """

  def run(*args):
    if not is_explicit():
      return f(*args)
    specs = tuple(PartitionSpec() if a is None else spec(*a) for a in out_axes)
    out = specs[0] if len(specs) == 1 else specs
    return jax.sharding.auto_axes(f, out_sharding=out)(*args)

  return run


def shard_map(
  f: Callable, in_axes, out_axes, *, checked: bool = False
) -> Callable:
  """Runs f on every device, on its own piece of the arguments (`shard_map`).

  Args:
    in_axes, out_axes: logical axes of each argument, which lies along them
      already, and of each result; a tree of Param says them for a tree.
      Inside of f, `psum`, `pmax`, `axis_index`, `all_gather` and `psum_scatter`
      speak of the other devices
    checked: by JAX, which then knows that devices that hold the same piece
      have the same gradient of it, and sums nothing. Loops start from zeros,
      which are alike on every device, and do not pass
  """

  def laid(axes):
    if isinstance(axes, tuple) and not is_param(axes):
      return spec(*axes)
    return jax.tree.map(lambda p: spec(*p.axes), axes, is_leaf=is_param)

  def run(*args):
    if not active():
      return f(*args)
    into, out = (tuple(map(laid, axes)) for axes in (in_axes, out_axes))
    run = jax.shard_map(f, in_specs=into, out_specs=out, check_vma=checked)
    return run(*args)

  return run


def psum(x: jax.Array, *axes: str) -> jax.Array:
  """Sums over the pieces of logical axes; inside of `shard_map`."""
  names = tuple(name for axis in axes for name in COMPUTE[axis])
  return jax.lax.psum(x, names) if active() else x


def pmax(x: jax.Array, axis: str) -> jax.Array:
  """Returns the maximum over a logical axis's pieces; inside `shard_map`."""
  return jax.lax.pmax(x, COMPUTE[axis]) if active() else x


def axis_index(axis: str):
  """Returns this device's index on a logical axis; inside of `shard_map`."""
  return jax.lax.axis_index(COMPUTE[axis]) if active() else 0


def all_gather(x: jax.Array, axis: str, dim: int = 0) -> jax.Array:
  """Joins x of all devices along the axis at dim; inside of `shard_map`."""
  if not active():
    return x
  return jax.lax.all_gather(x, COMPUTE[axis], axis=dim, tiled=True)


def psum_scatter(x: jax.Array, axis: str, dim: int = 0) -> jax.Array:
  """Sums x over devices and keeps each one's part, `all_gather` undone."""
  if not active():
    return x
  return jax.lax.psum_scatter(
    x, COMPUTE[axis], scatter_dimension=dim, tiled=True
  )


def all_to_all(x: jax.Array, axis: str, split: int, join: int) -> jax.Array:
  """Cuts x up along dim `split` and sends it to the devices of the axis.

  What comes from them is joined at dim `join`; inside of `shard_map`.
  """
  if not active():
    return x
  return jax.lax.all_to_all(x, COMPUTE[axis], split, join, tiled=True)


def abstract(specs):
  """Returns shapes, dtypes of parameters; with shardings if a mesh is set."""
  return jax.tree.map(
    lambda p: jax.ShapeDtypeStruct(p.shape, p.dtype, sharding=_stored(p)),
    specs,
    is_leaf=is_param,
  )


def shardings(specs):
  """Returns the parameters' shardings on the mesh that is set; None without."""
  return jax.tree.map(_stored, specs, is_leaf=is_param)


def _stored(p: Param) -> NamedSharding | None:
  if not active():
    return None
  mesh = jax.sharding.get_mesh()
  check_divides(p, mesh.shape)
  return NamedSharding(mesh, spec(*p.axes, rules=RULES))


def check_divides(p: Param, sizes: Mapping[str, int]) -> None:
  """Raises ValueError if a mesh of these sizes cannot store the parameter."""
  for size, axis in zip(p.shape, p.axes, strict=True):
    if axis and size % num_shards(axis, sizes, RULES):
      names = [name for name in RULES[axis] if sizes[name] > 1]
      factors = ' times '.join(f'{name}={sizes[name]}' for name in names)
      raise ValueError(
        f'parameter axis {axis!r} of size {size} is not divisible by mesh axis'
        f' {factors}; change c.mesh or the model size'
      )


def init(specs, key: jax.Array):
  """Creates parameters that are sharded already."""
  leaves, tree = jax.tree.flatten(specs, is_leaf=is_param)
  for p in leaves:
    _stored(p)  # raise before anything is compiled
  here = jax.sharding.get_mesh() if active() else None
  return jax.tree.unflatten(tree, _creator(tuple(leaves), here)(key))


@functools.lru_cache(maxsize=32)
def _creator(leaves: tuple[Param, ...], mesh) -> Callable:
  """Returns the compiled draw of parameters, one for all roles of a shape."""
  del mesh  # the one that is set, on which the result depends

  def create(key):
    keys = jax.random.split(key, len(leaves))
    return [
      p.init(k, p.shape).astype(p.dtype)
      for k, p in zip(keys, leaves, strict=True)
    ]

  if not is_explicit():
    return jax.jit(create, out_shardings=shardings(list(leaves)))
  stored = [spec(*p.axes, rules=RULES) for p in leaves]
  return jax.jit(jax.sharding.auto_axes(create, out_sharding=stored))


def init_replicated(create: Callable[[], Any]):
  """Returns the result of `create`, replicated over the mesh that is set."""
  if not active():
    return create()
  whole = NamedSharding(jax.sharding.get_mesh(), PartitionSpec())
  return jax.jit(create, out_shardings=whole)()


def count(specs) -> int:
  """Returns how many numbers the parameters hold."""
  return sum(
    math.prod(p.shape) for p in jax.tree.leaves(specs, is_leaf=is_param)
  )
