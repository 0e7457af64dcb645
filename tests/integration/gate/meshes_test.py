"""OPRL, rollout and update, is the same on one device and on eight.

The learner is that of the config; the batch is random. Compilation happens in
the first iteration only.
"""

import contextlib
import functools
import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import loop, mesh, types
from agentrl.configs import oprl
from agentrl.learner import update as update_lib
from agentrl.run import algorithm, build, pretrained
from agentrl.run.play import jit_sampler
from agentrl.run.stage import stages
from tests.batches import place
from tests.integration.gate import layouts

MESHES = [
  pytest.param((8, 1), marks=pytest.mark.nightly),
  pytest.param((4, 2), marks=pytest.mark.nightly),
  (2, 4),
]


def config():
  """Four heads, so that four devices can share them."""
  c = oprl.get_config('tiny,env=frozen_lake')
  c.model.update(dict(width=32, layers=1, heads=4, kv_heads=4, head_dim=8))
  c.rollout.update(dict(batch=16, group_size=4, slots=16, max_turns=4))
  c.micro_batch, c.sft.batch, c.env.train, c.env.test = 16, 16, 32, 16
  for role in c.role:  # a small eps makes Adam blow up rounding
    c.role[role].update(dict(lr=0.1, eps=1.0, warmup=0))
  c.hp.signal.implicit_prm.trajectory = 'sum'  # moves the PRM further
  return c


@functools.cache
def learner() -> update_lib.Algorithm:
  c = config()
  shape = pretrained.own(c, layouts.VOCAB)
  return algorithm.make_algorithm(c, shape)


def random_batch() -> types.Batch:
  """A row of each turn of eight episodes, every third of them solved."""
  batch, _ = layouts.lay(layouts.episodes(), 'turn')
  outcome = np.float32(np.arange(len(batch.outcome)) % 3 == 0)
  return batch.replace(outcome=outcome)


def on(sizes):
  if not sizes:
    return contextlib.nullcontext()
  made = mesh.make(dict(zip(('fsdp', 'tensor'), sizes, strict=True)))
  return jax.set_mesh(made)


def updated(sizes=()):
  """[(parameters by role, metrics)] of two iterations on the same batch.

  After the first the PRM differs from its reference, so that the second has
  step rewards as well.
  """
  with on(sizes):
    state = update_lib.init(learner(), jax.random.key(0))
    batch = random_batch()
    if sizes:
      batch = place(batch, batch.rows.traj.shape)
    update, out = jax.jit(functools.partial(update_lib.update, learner())), []
    for _ in range(2):
      state, metrics, _ = update(state, batch)
      out.append(jax.tree.map(np.asarray, (state.params, metrics)))
  return out


@functools.cache
def alone():
  start = jax.tree.map(
    np.asarray, update_lib.init(learner(), jax.random.key(0)).params
  )
  return start, updated()


@pytest.mark.slow
@pytest.mark.parametrize('sizes', MESHES, ids=str)
def test_updates_are_the_same(sizes):
  start, (first_want, (want, told_want)) = alone()
  first, (got, told) = updated(sizes)
  check_gradients(first, first_want)
  assert told.keys() == told_want.keys()
  assert float(told_want['advantage/step/abs_mean'][0]) > 0
  for name, pair in told.items():
    np.testing.assert_allclose(
      pair, told_want[name], rtol=1e-4, atol=1e-5, err_msg=name
    )
  for role in want:
    leaves = [jax.tree.leaves(t[role]) for t in (got, want, start)]
    moved = max(np.max(np.abs(b - c)) for _, b, c in zip(*leaves, strict=True))
    for a, b, _ in zip(*leaves, strict=True):
      np.testing.assert_allclose(a, b, rtol=0, atol=1e-5 + 1e-4 * moved)
    assert moved > 1e-2


def check_gradients(got, want):
  """Loss and gradients of the first iteration, to 1e-5.

  With eps = 1 Adam's first step is lr g / (|g| + 1): a parameter that is off by
  lr 1e-5 had a gradient that was off by about 1e-5.
  """
  (params, told), (params_want, told_want) = got, want
  for name in told:
    if name.startswith('loss/') or name.endswith('grad_norm'):
      np.testing.assert_allclose(
        told[name], told_want[name], rtol=1e-5, atol=1e-5, err_msg=name
      )
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=0.1 * 1e-5),
    params,
    params_want,
  )


@pytest.fixture
def compiled(caplog):
  """Names of what was compiled, in order."""
  caplog.set_level(logging.WARNING)

  def names():
    lines = [r.getMessage() for r in caplog.records]
    caplog.clear()
    lines = [x for x in lines if x.startswith('Compiling')]
    # Folding a key outside of jit: small, and forgotten by a process that
    # has run thousands of tests.
    return [x for x in lines if '_threefry' not in x]

  with jax.log_compiles():
    yield names


@pytest.fixture(scope='session')
def data(tmp_path_factory):
  return str(tmp_path_factory.mktemp('tasks'))


@pytest.mark.slow
@pytest.mark.parametrize(
  'sizes',
  [pytest.param((1, 1), marks=pytest.mark.nightly), *MESHES[1:]],
  ids=str,
)
def test_only_the_first_iteration_compiles(sizes, compiled, data):
  c = config()
  c.data = data
  c.mesh.fsdp, c.mesh.tensor = sizes
  s = build.experiment(c)
  with on(sizes if sizes != (1, 1) else ()):
    stage = stages.rl_stage(s, 0, 3, jit_sampler.JitSampler(s))
    state = stage.begin(update_lib.init(s.algorithm, jax.random.key(0)))
    batch, _ = stage.collect(state, stage.task(state, 0), 0)
    update_state = loop.jit_update(stage.algorithm)
    state, *_ = update_state(state, batch)
    assert compiled()  # the log is read rightly
    for step in (1, 2):
      batch, _ = stage.collect(state, stage.task(state, step), step)
      state, metrics, _ = update_state(state, batch)
      assert compiled() == []
  assert np.isfinite(float(metrics['loss/total'][0]))
  assert jnp.any(batch.rows.sampled)
