"""A role that follows the policy: by how much, when, and how it lies."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import agentrl.loss  # noqa: F401  registers the losses
from agentrl import mesh, optimizer, registry
from agentrl.configs import gkd
from agentrl.learner import update as update_lib
from agentrl.learner.algorithm import POLICY, Algorithm
from agentrl.model import policy
from agentrl.nn import transformer
from agentrl.run.check import validate
from agentrl.signal import moving_average
from agentrl.signal.base import Context
from agentrl.types import Batch
from tests import batches, errors

SHAPE = transformer.DecoderConfig(
  vocab=16, width=8, layers=1, heads=4, kv_heads=4, head_dim=4, mlp=8
)
DECAY = 0.75


def test_polyak():
  target, source = jnp.array([1.0, 0.1]), jnp.array([3.0, 0.1])
  got = moving_average.polyak({'x': target}, {'x': source}, 0.25)
  np.testing.assert_array_equal(got['x'], np.float32([1.5, 0.1]))


def learner(heads=0, every=1):
  """Distils from its own average: at once, when all of them are equal."""
  modules = {
    POLICY: policy.module(SHAPE, 1.0, heads),
    'teacher': policy.module(SHAPE),
  }
  spec = registry.MethodSpec(
    signal=('moving_average',),
    loss=('nll', 'distillation'),
    hp={'signal': {'moving_average': {'decay': DECAY, 'every': every}}},
  )
  rules = {POLICY: optimizer.OptimizerConfig(lr=0.1)}
  return Algorithm.from_spec(spec, Context(modules, rules, 4))


def batch_of() -> Batch:
  return Batch.from_turns(
    [[[1, 2]], [[3]], [[4, 5, 6]], [[7]]],
    [[[-1.0] * 2], [[-1.0]], [[-1.0] * 3], [[-1.0]]],
    reward=[[0.0]] * 4,
    group=[0, 0, 1, 1],
  )


def states(alg, batch, count=2):
  update = jax.jit(functools.partial(update_lib.update, alg))
  out = [update_lib.init(alg, jax.random.key(0))]
  for _ in range(count):
    out.append(update(out[-1], batch)[0])
  return out


@pytest.mark.parametrize(
  'heads', [pytest.param(0, marks=pytest.mark.nightly), 1]
)
def test_two_updates(heads):
  """From the policies after each step; it takes none of its own."""
  first, second, third = states(learner(heads), batch_of())
  names = tuple(first.params['teacher'])
  start, one, two = (
    {name: s.params[POLICY][name] for name in names}
    for s in (first, second, third)
  )
  chex.assert_trees_all_equal(first.params['teacher'], start)
  for state, want in (
    (second, lambda a, b, c: DECAY * a + (1 - DECAY) * b),
    (
      third,
      lambda a, b, c: DECAY * (DECAY * a + (1 - DECAY) * b) + (1 - DECAY) * c,
    ),
  ):
    chex.assert_trees_all_close(
      state.params['teacher'],
      jax.tree.map(want, start, one, two),
      rtol=1e-6,
      atol=1e-7,
    )
  assert np.any(two['embed'] != start['embed'])
  assert set(third.opt) == {POLICY}


def test_it_moves_every_other_iteration():
  start, one, two, three, _ = states(learner(every=2), batch_of(), 4)
  before, policy = start.params['teacher'], two.params[POLICY]
  chex.assert_trees_all_equal(one.params['teacher'], before)
  chex.assert_trees_all_close(
    two.params['teacher'],
    jax.tree.map(lambda a, b: DECAY * a + (1 - DECAY) * b, before, policy),
    rtol=1e-6,
    atol=1e-7,
  )
  chex.assert_trees_all_equal(three.params['teacher'], two.params['teacher'])


@pytest.mark.slow
def test_it_lies_as_the_policy_does():
  batch = batch_of()
  want = states(learner(), batch)[-1].params['teacher']
  with jax.set_mesh(mesh.make({'fsdp': 2, 'tensor': 2})):
    laid = batches.place(batch, batch.rows.tokens.shape)
    params = states(learner(), laid)[-1].params
  for x, y in zip(
    jax.tree.leaves(params['teacher']),
    jax.tree.leaves(params[POLICY]),
    strict=True,
  ):
    assert x.sharding.is_equivalent_to(y.sharding, x.ndim)
  got = jax.tree.map(np.asarray, params['teacher'])
  chex.assert_trees_all_close(got, want, rtol=1e-3, atol=1e-4)


def config(**changes):
  c = gkd.get_config('tiny')
  c.role.teacher.update(dict(kind='ema', run=''))
  c.signal = ('moving_average',)
  c.update_from_flattened_dict(changes)
  return c


def test_only_what_is_there_to_be_moved_is():
  validate.config(config())
  fix = 'role.teacher.kind ema role.teacher.heads 0'
  for changes in ({'kind': 'frozen'}, {'heads': 1}):
    changes = {f'role.teacher.{name}': x for name, x in changes.items()}
    with errors.raises(ValueError, fix):
      validate.config(config(**changes))
