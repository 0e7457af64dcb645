"""Meshes, and where parameters and optimizer states lie on them."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

from agentrl import mesh, optimizer, registry
from agentrl.learner import update
from agentrl.model import policy
from agentrl.nn import config, transformer
from agentrl.signal.base import Context
from tests import errors

SHAPES = [{'fsdp': 8}, {'fsdp': 4, 'tensor': 2}, {'sequence': 2, 'tensor': 4}]
KINDS = pytest.mark.parametrize(
  'explicit', [True, pytest.param(False, marks=pytest.mark.nightly)]
)
SIZES = pytest.mark.parametrize('shape', SHAPES, ids=str)
LARGE = 64  # numbers; what is smaller may be replicated

DECODER = transformer.DecoderConfig(
  vocab=16,
  width=16,
  layers=1,
  heads=4,
  kv_heads=4,
  head_dim=4,
  mlp=32,
  qk_norm=True,
)
SPECS = transformer.specs(DECODER)


@pytest.mark.parametrize(
  ('shape', 'words'),
  [
    ({'batch': 2}, 'batch data fsdp'),
    ({'data': 0}, 'data 0'),
    ({'data': -2}, 'data -2'),
    ({'data': -1, 'tensor': -1}, 'data tensor -1'),
    ({'data': -1, 'tensor': 3}, '3 8'),
    ({'fsdp': 8, 'tensor': 2}, '16 8'),
  ],
)
def test_make_says_what_does_not_fit(shape, words):
  with errors.raises(ValueError, words):
    mesh.make(shape)


def test_make():
  assert dict(mesh.make({}).shape) == dict.fromkeys(mesh.AXES, 1)
  assert dict(mesh.make({'data': -1, 'tensor': 2}).shape) == {
    'data': 4,
    'fsdp': 1,
    'expert': 1,
    'sequence': 1,
    'tensor': 2,
  }
  some = mesh.make({'data': 2})  # fewer than there are
  assert some.devices.size == 2
  assert set(some.axis_types) == {AxisType.Explicit}
  auto = mesh.make({'data': 2}, explicit=False)
  assert set(auto.axis_types) == {AxisType.Auto}


def test_a_parameter_that_does_not_divide_is_named():
  specs = {'w': mesh.Param((6, 4), ('mlp', 'embed'), config.ones)}
  with jax.set_mesh(mesh.make({'fsdp': 2, 'tensor': 4})):
    with errors.raises(ValueError, 'mlp 6 tensor 4'):
      mesh.init(specs, jax.random.key(0))
    with errors.raises(ValueError, 'mlp 6'):
      mesh.abstract(specs)


@functools.cache
def parameters(explicit: bool = True, **shape):
  """Made on that mesh, or on one device."""
  if not shape:
    return mesh.init(SPECS, jax.random.key(1))
  with jax.set_mesh(mesh.make(shape, explicit=explicit)):
    return mesh.init(SPECS, jax.random.key(1))


@SIZES
@KINDS
def test_init_is_the_same_on_every_mesh(shape, explicit):
  got, want = parameters(**shape, explicit=explicit), parameters()
  for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-6)


def expected(shape):
  """Mesh axes that each parameter is stored along, as the table says."""

  def spec(p):
    names = [mesh.RULES[a] if a else () for a in p.axes]
    return [math.prod(shape.get(n, 1) for n in several) for several in names]

  return jax.tree.map(spec, SPECS, is_leaf=mesh.is_param)


def parts(x: jax.Array) -> list[int]:
  """Into how many pieces each axis is cut."""
  piece = x.sharding.shard_shape(x.shape)
  return [n // m for n, m in zip(x.shape, piece, strict=True)]


def check_stored(params, shape):
  want = expected(shape)
  for path, x in jax.tree_util.tree_leaves_with_path(params):
    cut = want
    for step in path:
      cut = cut[step.key]
    assert parts(x) == cut, jax.tree_util.keystr(path)


@SIZES
@KINDS
def test_parameters_are_stored_by_the_table(shape, explicit):
  with jax.set_mesh(mesh.make(shape, explicit=explicit)):
    params = parameters(**shape, explicit=explicit)
    check_stored(params, shape)
    # Every device holds its part, and not more.
    per = sum(
      x.addressable_shards[0].data.size for x in jax.tree.leaves(params)
    )
    assert per < mesh.count(SPECS) * 0.6
    told = mesh.abstract(SPECS)
    same = jax.tree.map(
      lambda a, b: a.sharding.is_equivalent_to(b.sharding, a.ndim), told, params
    )
    assert all(jax.tree.leaves(same))


def moments_of(opt):
  """Adam's two trees of the parameters' shape."""
  (adam,) = [
    x
    for x in jax.tree.leaves(
      opt, is_leaf=lambda x: isinstance(x, optimizer.optax.ScaleByAdamState)
    )
    if isinstance(x, optimizer.optax.ScaleByAdamState)
  ]
  return adam.mu, adam.nu


def check_optimizer(opt, params):
  for tree in moments_of(opt):
    pairs = zip(jax.tree.leaves(tree), jax.tree.leaves(params), strict=True)
    for m, p in pairs:
      assert p.size < LARGE or parts(m) == parts(p)


@SIZES
@KINDS
def test_optimizer_state_lies_as_its_parameters(shape, explicit):
  """As initialised and after a step; a replicated one costs the memory."""
  roles = 'policy', 'prm'
  modules = dict.fromkeys(roles, policy.module(DECODER))
  rules = dict.fromkeys(roles, optimizer.OptimizerConfig())
  made = update.Algorithm.from_spec(
    registry.MethodSpec(), Context(modules, rules, 8)
  )
  with jax.set_mesh(mesh.make(shape, explicit=explicit)):
    state = update.init(made, jax.random.key(0))
    for role in modules:
      check_stored(state.params[role], shape)
      check_optimizer(state.opt[role], state.params[role])

    @jax.jit
    def step(params, opt):
      return optimizer.step(rules['policy'], params, opt, params)

    params, opt, _ = step(state.params['policy'], state.opt['policy'])
    check_optimizer(opt, params)
    check_stored(params, shape)


def gather(table, ids):
  return table[ids], jnp.sum(table)


def test_auto_is_the_function_itself_without_explicit_axes():
  table, ids = jnp.arange(12.0).reshape(6, 2), jnp.array([5, 0, 0, 3])
  f = mesh.auto(gather, ('batch', None), None)
  want = gather(table, ids)
  for got in (f(table, ids), jax.jit(f)(table, ids)):
    jax.tree.map(np.testing.assert_array_equal, got, want)
  with jax.set_mesh(mesh.make({'data': 4}, explicit=False)):
    got = jax.jit(f)(table, ids)
    jax.tree.map(np.testing.assert_array_equal, got, want)


def test_auto_allows_what_explicit_axes_refuse():
  table, ids = jnp.arange(12.0).reshape(6, 2), jnp.array([5, 0, 0, 3])
  want = gather(table, ids)
  with jax.set_mesh(mesh.make({'data': 4})):
    table = jax.device_put(table, jax.P())
    ids = jax.device_put(ids, mesh.spec('batch'))
    with errors.raises(Exception, 'out_sharding'):
      jax.jit(gather)(table, ids)
    f = mesh.auto(gather, ('batch', None), None)
    picked, total = jax.jit(f)(table, ids)
  np.testing.assert_array_equal(picked, want[0])
  np.testing.assert_array_equal(total, want[1])
  assert parts(picked) == [4, 1]
  assert parts(total) == []


def test_place_and_gather_are_the_identity_without_a_mesh():
  x = jnp.ones((4, 2))
  assert mesh.with_logical_sharding(x, 'batch', None) is x
  params = {'w': x}
  assert mesh.gather_params(params, {'w': SPECS['embed']}) is params
  assert not mesh.active()
  assert not mesh.is_explicit()


@KINDS
def test_what_is_checked_needs_no_sum_over_copies(explicit):
  """A gradient of what two devices hold alike: the same, without a sum."""
  x, at = jnp.arange(12.0).reshape(4, 3), jnp.array([[2, 0], [1, 1]] * 2)

  def pull(checked):
    def f(x, at):
      return (jnp.square(jnp.take_along_axis(x, at, axis=1)),)

    rows = ('batch', None)
    run = mesh.shard_map(f, (rows, rows), (rows,), checked=checked)
    return jax.jit(jax.grad(lambda x, at: jnp.sum(run(x, at)[0])))

  want = pull(True)(x, at)
  with jax.set_mesh(mesh.make({'data': 2, 'tensor': 2}, explicit=explicit)):
    lie = jax.NamedSharding(jax.sharding.get_mesh(), mesh.spec('batch', None))
    args = [jax.device_put(a, lie) for a in (x, at)]
    sums = []
    for checked in (True, False):
      np.testing.assert_array_equal(pull(checked)(*args), want)
      text = pull(checked).lower(*args).compile().as_text()
      sums.append(text.count('all-reduce('))
  assert sums == [0, 1]


@KINDS
def test_gather_keeps_the_tensor_axis(explicit):
  with jax.set_mesh(mesh.make({'fsdp': 2, 'tensor': 4}, explicit=explicit)):
    params = parameters(fsdp=2, tensor=4, explicit=explicit)
    whole = jax.jit(lambda p: mesh.gather_params(p, SPECS))(params)
  assert parts(params['layers']['q']) == [1, 2, 4, 1]
  assert parts(whole['layers']['q']) == [1, 1, 4, 1]


def test_parameters_of_one_shape_are_drawn_apart():
  p = mesh.Param((3,), (None,), jax.random.normal)
  got = mesh.init({'x': p, 'y': p}, jax.random.key(0))
  assert not np.any(got['x'] == got['y'])
