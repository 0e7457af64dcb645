"""Where arrays live: one mesh, one table of logical axes, parameter specs.

Model code names logical axes only. `RULES` says which mesh axis stores each
of them; while computing, parameters are gathered along `fsdp` axes (COMPUTE).

`jax.jit` over a mesh is what used to be called pjit.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

AXES = ('data', 'model')

# logical axis -> mesh axis where arrays are stored. Parameters are split over
# both axes: `embed` over data is what is called fully sharded data parallel.
RULES = {
  'batch': 'data',
  'embed': 'data',
  'heads': 'model',
  'kv_heads': 'model',
  'mlp': 'model',
  'vocab': 'model',
  'layers': None,
  'time': None,
  'expert': None,
}
# While computing, the data axis belongs to the batch.
COMPUTE = {**RULES, 'embed': None}


class Param(NamedTuple):
  """A parameter before it exists."""

  shape: tuple[int, ...]
  axes: tuple[str | None, ...]
  init: Callable[[jax.Array, tuple[int, ...]], jax.Array]
  dtype: Any = jnp.float32


def is_param(x) -> bool:
  return isinstance(x, Param)


def sizes(shape: Mapping[str, int], devices: int) -> dict[str, int]:
  """The size of each of AXES: -1 is what is left, missing axes have 1.

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
  known = math.prod(s for s in wanted if s != -1)
  if -1 in wanted and devices % known:
    raise ValueError(
      f'mesh {dict(shape)} does not divide the {devices} devices at hand;'
      f' choose sizes whose product divides {devices}'
    )
  found = {
    a: devices // known if s == -1 else s
    for a, s in zip(AXES, wanted, strict=True)
  }
  if math.prod(found.values()) > devices:
    raise ValueError(
      f'mesh {found} needs {math.prod(found.values())} devices and'
      f' {devices} are at hand; make it smaller'
    )
  return found


def make(
  shape: Mapping[str, int], *, explicit: bool = True
) -> jax.sharding.Mesh:
  """A mesh of AXES sizes (`sizes`) over the first of the devices at hand."""
  found = tuple(sizes(shape, len(jax.devices())).values())
  kind = AxisType.Explicit if explicit else AxisType.Auto
  return jax.make_mesh(
    found,
    AXES,
    axis_types=(kind,) * len(AXES),
    devices=np.array(jax.devices()[: math.prod(found)]),
  )


def active() -> bool:
  """Whether a mesh of AXES has been set by `jax.set_mesh`."""
  return bool(set(AXES) & set(jax.sharding.get_abstract_mesh().axis_names))


def is_explicit() -> bool:
  mesh = jax.sharding.get_abstract_mesh()
  return not mesh.empty and AxisType.Explicit in mesh.axis_types


def spec(*axes: str | None, rules: dict[str, str | None] = COMPUTE):
  """PartitionSpec of logical axes under the rules."""
  return PartitionSpec(*(rules[a] if a else None for a in axes))


def place(x: jax.Array, *axes: str | None) -> jax.Array:
  """x, laid out along the logical axes; the identity without a mesh."""
  if not active():
    return x
  if is_explicit():
    return jax.reshard(x, spec(*axes))
  return jax.lax.with_sharding_constraint(x, spec(*axes))


def einsum(formula: str, *args: jax.Array, axes: tuple[str | None, ...]):
  """jnp.einsum whose result lies along the logical axes."""
  if is_explicit():
    return jnp.einsum(formula, *args, out_sharding=spec(*axes))
  return place(jnp.einsum(formula, *args), *axes)


def reshape(x: jax.Array, shape: tuple[int, ...], axes):
  """x.reshape(shape), the result lying along the logical axes."""
  if is_explicit():
    return jnp.reshape(x, shape, out_sharding=spec(*axes))
  return x.reshape(shape)


def gather_params(params, specs):
  """Parameters as they are computed with: whole along the data axis."""
  if not active():
    return params
  return jax.tree.map(
    lambda s, p: place(p, *s.axes), specs, params, is_leaf=is_param
  )


def auto(f: Callable, *out_axes: tuple[str | None, ...] | None) -> Callable:
  """f with the compiler choosing shardings inside.

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


def local(f: Callable, in_axes, out_axes) -> Callable:
  """f run by every device on its own piece of the arguments (`shard_map`).

  Args:
    in_axes, out_axes: logical axes of each argument, which lies along them
      already, and of each result. Inside of f, `total`, `largest` and `index`
      speak of the other devices
  """

  def run(*args):
    if not active():
      return f(*args)
    into, out = (tuple(spec(*a) for a in axes) for axes in (in_axes, out_axes))
    # Not checked: loops start from zeros, which are alike on every device.
    return jax.shard_map(f, in_specs=into, out_specs=out, check_vma=False)(
      *args
    )

  return run


def total(x: jax.Array, axis: str) -> jax.Array:
  """Sum over the pieces of a logical axis; inside of `local`."""
  return jax.lax.psum(x, COMPUTE[axis]) if active() else x


def largest(x: jax.Array, axis: str) -> jax.Array:
  """Maximum over the pieces of a logical axis; inside of `local`."""
  return jax.lax.pmax(x, COMPUTE[axis]) if active() else x


def index(axis: str):
  """Which piece of a logical axis this device holds; inside of `local`."""
  return jax.lax.axis_index(COMPUTE[axis]) if active() else 0


def abstract(specs):
  """Shapes and dtypes of the parameters, with shardings if a mesh is set."""
  return jax.tree.map(
    lambda p: jax.ShapeDtypeStruct(p.shape, p.dtype, sharding=_stored(p)),
    specs,
    is_leaf=is_param,
  )


def shardings(specs):
  """Shardings of the parameters on the mesh that is set; None without one."""
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
    name = RULES[axis] if axis else None
    if name and size % sizes[name]:
      raise ValueError(
        f'parameter axis {axis!r} of size {size} is not divisible by mesh axis'
        f' {name}={sizes[name]}; change c.mesh or the model size'
      )


def init(specs, key: jax.Array):
  """Parameters, created already sharded."""
  leaves, tree = jax.tree.flatten(specs, is_leaf=is_param)
  for p in leaves:
    _stored(p)  # raise before anything is compiled

  def create(key):
    keys = jax.random.split(key, len(leaves))
    values = [
      p.init(k, p.shape).astype(p.dtype)
      for k, p in zip(keys, leaves, strict=True)
    ]
    return jax.tree.unflatten(tree, values)

  if not is_explicit():
    return jax.jit(create, out_shardings=shardings(specs))(key)
  stored = jax.tree.map(
    lambda p: spec(*p.axes, rules=RULES), specs, is_leaf=is_param
  )
  return jax.jit(jax.sharding.auto_axes(create, out_sharding=stored))(key)


def everywhere(create: Callable[[], Any]):
  """What `create` makes, whole on every device of the mesh that is set."""
  if not active():
    return create()
  whole = NamedSharding(jax.sharding.get_mesh(), PartitionSpec())
  return jax.jit(create, out_shardings=whole)()


def count(specs) -> int:
  """How many numbers the parameters hold."""
  return sum(
    math.prod(p.shape) for p in jax.tree.leaves(specs, is_leaf=is_param)
  )
