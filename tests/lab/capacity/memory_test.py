"""Bytes of a run from shapes: by hand, and against the compiler."""

import contextlib
import dataclasses
import itertools
import math
import re

import jax
import jax.numpy as jnp
import pytest

from agentrl import mesh, optimizer, registry
from agentrl.lab.capacity import cost, memory
from agentrl.lab.capacity.tpu import programs
from agentrl.learner import algorithm
from agentrl.learner.algorithm import Algorithm
from agentrl.model import microbatch, policy, shared_base
from agentrl.nn import lora, transformer
from agentrl.rollout.engine import programs as engine_programs
from agentrl.signal.base import Context
from tests import errors

FACTOR = 2.0  # that an estimate may be off from what is compiled
SHAPE = transformer.DecoderConfig(
  vocab=2048, width=128, layers=2, heads=8, kv_heads=4, head_dim=16, mlp=384
)
WORK = memory.Workload(
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
  assert memory.held(specs, sizes) == 4 * (8 * 12 // 8 + 5)
  assert memory.held(specs, sizes, mesh.COMPUTE) == 4 * (8 * 12 // 2 + 5)
  # Adam: two moments and a count.
  assert (
    memory.moments(optimizer.OptimizerConfig(), specs, sizes)
    == 8 * (12 + 5) + 4
  )
  with errors.raises(ValueError, 'kv_heads 4 tensor 16'):
    cost.estimate(learner(), SHAPE, WORK, over(tensor=16))


@pytest.mark.parametrize('slots', [1, 16, 24, 25, 4096])
@pytest.mark.parametrize('devices', [1, 2, 8])
@pytest.mark.parametrize('engines', [(), (129, 64)])
def test_a_device_keeps_its_share_of_the_slots(slots, devices, engines):
  """What each of several devices keeps, one keeps for as many slots."""

  def kept(slots, **sizes):
    work = WORK._replace(engines=engines, slots=slots)
    told = memory.memory(learner(), SHAPE, work, over(**sizes))
    return told.rollout, told.engines

  share = -(-slots // devices)
  assert kept(slots, data=devices) == kept(share)
  assert sum(kept(share + 1)) > sum(kept(share))


def test_more_devices_hold_less_and_receive_more():
  found = [
    cost.estimate(learner(), SHAPE, WORK, over(fsdp=n)) for n in (1, 2, 8)
  ]
  for a, b in itertools.pairwise(found):
    assert b.memory.parameters < a.memory.parameters
    assert b.memory.activations < a.memory.activations
    assert sum(b.traffic) > sum(a.traffic)
    assert a.flops == b.flops
  assert sum(found[0].traffic) == 0


@pytest.mark.parametrize('sizes', [over(), over(fsdp=4, tensor=2)], ids=str)
@pytest.mark.parametrize('dtype', ['float32', 'bfloat16'])
def test_what_an_engine_keeps(sizes, dtype):
  """Layers and a head to write with, and a cache, against the compiler."""
  shape = dataclasses.replace(SHAPE, dtype=dtype)
  specs = policy.module(shape).specs
  alone = math.prod(sizes.values()) == 1
  with contextlib.nullcontext() if alone else jax.set_mesh(mesh.make(sizes)):
    run = engine_programs.programs(shape, WORK.slots, WORK.capacity, 0, 4)
    programs = [run.prepare.lower(mesh.abstract(specs)), run.empty.lower()]
    writes, reads = (
      p.compile().memory_analysis().output_size_in_bytes for p in programs
    )
  if alone and dtype == 'float32':  # the embedding is not copied
    writes -= 4 * SHAPE.vocab * SHAPE.width
  assert close(memory.writing(shape, specs, sizes), writes, 1.1)
  here = WORK._replace(slots=WORK.slots // sizes['fsdp'])
  logits = 3 * 4 * here.slots * SHAPE.vocab / sizes['tensor']
  kept = memory.cache(shape, here, sizes['tensor']) - logits
  assert close(kept, reads, 1.2)


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


def bytes_of(text: str, operation: str) -> int:
  """Of the results of an operation in a compiled program, once each."""
  total = 0
  for line in re.findall(rf'= (.*?) {operation}(?:-start)?\(', text):
    for size in re.findall(r'f32\[([\d,]+)\]', line):
      total += 4 * math.prod(int(x) for x in size.split(','))
  return total


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
  found = cost.estimate(
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
  if sizes == over(fsdp=sizes['fsdp']) != over():
    gathered = bytes_of(step.as_text(), 'all-gather')
    assert close(memory.held(policy.module(shape).specs, over()), gathered)


def close(a: float, b: float, factor: float = FACTOR) -> bool:
  assert 1 / factor < a / b < factor, f'{a:.3g} against {b:.3g}'
  return True
