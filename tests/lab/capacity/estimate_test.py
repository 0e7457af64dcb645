"""A step from shapes: by hand, and against the compiler."""

import contextlib
import dataclasses
import itertools
import math

import jax
import jax.numpy as jnp
import pytest

from agentrl import mesh, optimizer, registry
from agentrl.configs import grpo
from agentrl.lab.capacity import estimate as estimate_lib
from agentrl.lab.capacity.compiled import programs
from agentrl.learner import algorithm
from agentrl.learner.algorithm import Algorithm
from agentrl.model import microbatch, policy, shared_base
from agentrl.nn import lora, transformer
from agentrl.rollout.engine import programs as engine_programs
from agentrl.run.algorithm import make_algorithm
from agentrl.signal.base import Context
from tests import errors

FACTOR = 2.0  # that an estimate may be off from what is compiled
SHAPE = transformer.DecoderConfig(
  vocab=2048, width=128, layers=2, heads=8, kv_heads=4, head_dim=16, mlp=384
)
WORK = estimate_lib.Workload(
  rows=16,
  tokens=128,
  micro=8,
  epochs=1,
  batch=16,
  slots=16,
  turns=1,
  read=120,
  message=8,
  afresh=False,
  capacity=129,
)


def over(**sizes: int) -> dict[str, int]:
  """Sizes of all mesh axes."""
  return dict.fromkeys(mesh.AXES, 1) | sizes


def learner(shape=SHAPE, rank: int = 0) -> Algorithm:
  modules = {'policy': policy.module(shape)}
  if rank:
    full = modules['policy']
    modules = shared_base.modules(modules, full, lora.Lora(rank, pattern='.*'))
  context = Context(
    modules, {'policy': optimizer.OptimizerConfig()}, WORK.micro
  )
  return Algorithm.from_spec(registry.MethodSpec(loss=('nll',)), context)


def test_parameters_by_hand():
  specs = {
    'a': mesh.Param((8, 12), ('embed', 'heads'), jnp.zeros),
    'b': mesh.Param((5,), (None,), jnp.zeros),
  }
  sizes = over(fsdp=4, tensor=2)
  assert estimate_lib.held(specs, sizes) == 4 * (8 * 12 // 8 + 5)
  assert estimate_lib.held(specs, sizes, mesh.COMPUTE) == 4 * (8 * 12 // 2 + 5)
  # Adam: two moments and a count.
  assert (
    estimate_lib.moments(optimizer.OptimizerConfig(), specs, sizes)
    == 8 * (12 + 5) + 4
  )
  with errors.raises(ValueError, 'kv_heads 4 tensor 16'):
    estimate_lib.estimate(learner(), SHAPE, WORK, over(tensor=16))


@pytest.mark.parametrize('slots', [1, 16, 24, 25, 4096])
@pytest.mark.parametrize('devices', [1, 2, 8])
@pytest.mark.parametrize('engines', [(), (129, 64)])
def test_a_device_keeps_its_share_of_the_slots(slots, devices, engines):
  """What each of several devices keeps, one keeps for as many slots."""

  def kept(slots, **sizes):
    work = WORK._replace(engines=engines, slots=slots)
    told = estimate_lib.memory(learner(), SHAPE, work, over(**sizes))
    return told.rollout, told.engines

  share = -(-slots // devices)
  assert kept(slots, data=devices) == kept(share)
  assert sum(kept(share + 1)) > sum(kept(share))


def test_more_devices_hold_less():
  found = [
    estimate_lib.estimate(learner(), SHAPE, WORK, over(fsdp=n))
    for n in (1, 2, 8)
  ]
  for a, b in itertools.pairwise(found):
    assert b.memory.parameters < a.memory.parameters
    assert b.memory.activations < a.memory.activations
    assert a.flops == b.flops


@pytest.mark.parametrize('sizes', [over(), over(fsdp=4, tensor=2)], ids=str)
def test_what_an_engine_keeps(sizes):
  """Weights to write with and a cache, against the compiler."""
  shape = dataclasses.replace(SHAPE, dtype='bfloat16')
  alone = math.prod(sizes.values()) == 1
  with contextlib.nullcontext() if alone else jax.set_mesh(mesh.make(sizes)):
    run = engine_programs.programs(shape, WORK.slots, WORK.capacity, 0, 4)
    specs = mesh.abstract(policy.module(shape).specs)
    programs = [run.prepare.lower(specs), run.empty.lower()]
    kept = sum(
      p.compile().memory_analysis().output_size_in_bytes for p in programs
    )
  told = estimate_lib.memory(learner(shape), shape, WORK, sizes)
  assert close(told.rollout, kept)


def compiled(context: Context, work):
  """A gradient over micro-batches and a step of the optimizer."""
  modules, rule = context.modules, optimizer.OptimizerConfig()
  module = modules['policy']
  params = mesh.abstract(module.specs)
  base = {
    role: mesh.abstract(m.specs) for role, m in modules.items() if m != module
  }
  batch = programs.rows(work.rows, work.tokens)

  def loss(out, rows, scale):
    return jnp.sum(out.logp * scale - 0.01 * out.entropy), {}

  def step(params, opt, base, rows, scale):
    whole = Algorithm.from_spec(registry.MethodSpec(), context)
    apply = (
      algorithm.bind_shared_params(whole, base).context.modules['policy'].apply
    )
    total = microbatch.objective(apply, ('entropy', 'logp'), loss)
    grads, _ = microbatch.gradient(total, params, rows, scale, work.micro)
    return optimizer.step(rule, grads, opt, params)

  begin = jax.jit(lambda p: optimizer.init(rule, p, module.specs)).lower(params)
  opt = jax.tree.map(
    lambda x, lies: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=lies),
    begin.out_info,
    begin.compile().output_shardings,
  )
  run = jax.jit(step, donate_argnums=(0, 1))
  return run.lower(params, opt, base, batch, batch.logp).compile()


DEEP = dict(layers=12, remat='layer')
MIXED = dict(experts=8, top_k=2)
CASES = [
  ({}, WORK, over(fsdp=2, tensor=2), 0),
  ({}, WORK, over(), 1),
  ({}, WORK, over(fsdp=8), 1),
  ({}, WORK, over(fsdp=2, tensor=4), 1),
  ({}, WORK._replace(tokens=512), over(), 1),
  (DEEP, WORK._replace(tokens=512), over(), 1),
  (DEEP, WORK._replace(tokens=512), over(fsdp=4, tensor=2), 1),
  (DEEP | {'remat': 'dots'}, WORK, over(fsdp=4, tensor=2), 1),
  ({'vocab': 16_384}, WORK, over(fsdp=2, tensor=2), 1),
  (DEEP, WORK._replace(tokens=512), over(sequence=4, tensor=2), 1),
  (DEEP | MIXED, WORK, over(expert=4, tensor=2), 1),
  (DEEP | MIXED, WORK, over(data=2, fsdp=2, expert=2), 1),
  ({'rank': 4}, WORK, over(), 1),
  (DEEP | {'rank': 4}, WORK._replace(tokens=512), over(fsdp=4, tensor=2), 1),
]


@pytest.mark.parametrize(
  ('change', 'work', 'sizes'),
  [
    pytest.param(*case, marks=pytest.mark.nightly if slow else ())
    for *case, slow in CASES
  ],
  ids=[f'{c} {w.tokens} {s}' for c, w, s, _ in CASES],
)
def test_against_what_is_compiled(change, work, sizes):
  """Memory of an update, its products, and what is gathered."""
  change = dict(change)
  rank = change.pop('rank', 0)
  shape = transformer.DecoderConfig(**{**vars(SHAPE), **change})
  learns = learner(shape, rank)
  alone = math.prod(sizes.values()) == 1
  with contextlib.nullcontext() if alone else jax.set_mesh(mesh.make(sizes)):
    step = compiled(learns.context, work)
  found = estimate_lib.estimate(
    learns, shape, work._replace(message=work.tokens), sizes
  )
  m, used = found.memory, step.memory_analysis()
  now = used.argument_size_in_bytes + used.temp_size_in_bytes
  assert close(m._replace(rollout=0).peak, now)
  assert close(
    m.parameters + m.moments + m.rows, used.argument_size_in_bytes, 1.2
  )
  if shape.layers == SHAPE.layers:  # a loop's body is counted once
    rounds = work.rows / work.micro
    each = (found.flops.forward + found.flops.backward) / rounds
    each /= math.prod(sizes.values())
    assert close(each, step.cost_analysis()['flops'])


def close(a: float, b: float, factor: float = FACTOR) -> bool:
  assert 1 / factor < a / b < factor, f'{a:.3g} against {b:.3g}'
  return True


def test_flops_by_hand():
  d, f, h, g, k = 128, 384, 8, 4, 16
  layer = d * k * (2 * h + 2 * g) + 3 * d * f
  assert estimate_lib.matrices(SHAPE) == 2 * layer
  got = estimate_lib.pass_flops(SHAPE, tokens=10, pairs=7, scored=3)
  want = 2 * 2 * layer * 10 + 2 * 7 * (4 * h * k) + 3 * 2 * d * 2048
  assert got == want


def test_what_is_computed_again_backwards():
  """Nothing, scores, all but values, or all: 2, then more, then 3 of 3."""
  learns = make_algorithm(grpo.get_config(), SHAPE)
  tokens = 16 * 128
  one = estimate_lib.pass_flops(SHAPE, tokens, tokens * 129 / 2, 16 * 8)
  products = 2 * estimate_lib.matrices(SHAPE) * tokens
  values = estimate_lib.pass_flops(SHAPE, 0, tokens * 129 / 4, 0)
  want = {
    'none': 2 * one,
    'dots': 3 * one - products - values,
    'attention': 3 * one - values,
    'layer': 3 * one,
  }
  _, both = estimate_lib.passes(learns, WORK)
  for remat, flops in want.items():
    shape = dataclasses.replace(SHAPE, remat=remat)
    assert estimate_lib.flops(learns, shape, WORK).backward == both * flops
