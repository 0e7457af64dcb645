"""Estimates from shapes: by hand, and against what the compiler says."""

import contextlib
import dataclasses
import itertools
import json
import math
import re

import jax
import jax.numpy as jnp
import pytest

from agentrl import mesh, optimizer, registry, types
from agentrl.capacity import cost, hardware, memory, report
from agentrl.configs import grpo, oprl
from agentrl.learner import algorithm
from agentrl.learner.algorithm import Learner
from agentrl.model import microbatch, policy, shared_base
from agentrl.nn import lora, transformer
from agentrl.rollout.engine import programs as engine_programs
from agentrl.signal.base import Context
from tests import checkpoints

FACTOR = 2.0  # that an estimate may be off from what is compiled

SHAPE = transformer.Shape(
  vocab=2048, width=128, layers=2, heads=8, kv_heads=4, head_dim=16, mlp=384
)
WORK = memory.Work(
  rows=16, tokens=128, micro=8, epochs=1, batch=16, slots=16, turns=1,
  read=120, message=8, afresh=False, capacity=129,
)  # fmt: skip


def over(**sizes: int) -> dict[str, int]:
  """Sizes of all mesh axes."""
  return dict.fromkeys(mesh.AXES, 1) | sizes


def learner(shape=SHAPE, rank: int = 0) -> Learner:
  modules = {'policy': policy.module(shape)}
  if rank:
    full = modules['policy']
    modules = shared_base.modules(modules, full, lora.Lora(rank, pattern='.*'))
  context = Context(modules, {'policy': optimizer.Rule()}, WORK.micro)
  return Learner(registry.Wiring(loss=('nll',)), context)


def test_topologies():
  v5e, v5p, gpus = (hardware.parse(x) for x in ('v5e-16', 'v5p-16', '8xH100'))
  assert (v5e.devices, v5e.chip.memory) == (16, 16e9)
  assert v5p.devices == 8  # its names count cores
  assert (gpus.devices, gpus.chip) == (8, hardware.GPUS['H100'])
  for wrong in ('v5e', '8xv5e', 'H100-8', '0xH100', 'v4-1', 'v9-8'):
    with pytest.raises(ValueError, match=f"'{wrong}' is unknown; write KIND"):
      hardware.parse(wrong)


def test_parameters_by_hand():
  specs = {
    'a': mesh.Param((8, 12), ('embed', 'heads'), jnp.zeros),
    'b': mesh.Param((5,), (None,), jnp.zeros),
  }
  sizes = over(fsdp=4, tensor=2)
  assert memory.held(specs, sizes) == 4 * (8 * 12 // 8 + 5)
  assert memory.held(specs, sizes, mesh.COMPUTE) == 4 * (8 * 12 // 2 + 5)
  # Adam: two moments and a count.
  assert memory.moments(optimizer.Rule(), specs, sizes) == 8 * (12 + 5) + 4
  with pytest.raises(ValueError, match=r"'kv_heads' of size 4 .* tensor=16"):
    cost.estimate(learner(), SHAPE, WORK, over(tensor=16))


def test_flops_by_hand():
  d, f, h, g, k = 128, 384, 8, 4, 16
  layer = d * k * (2 * h + 2 * g) + 3 * d * f
  assert cost.matrices(SHAPE) == 2 * layer
  got = cost.pass_flops(SHAPE, tokens=10, pairs=7, said=3)
  want = 2 * 2 * layer * 10 + 2 * 7 * (4 * h * k) + 3 * 2 * d * 2048
  assert got == want


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


def estimate(c, where, path=None):
  return report.estimate(c, where, report.language(c, path))


def tiny(method=grpo):
  return method.get_config('tiny')


def test_the_table_and_what_a_role_costs():
  text = report.report(tiny(), 'v5e-16')
  assert 'on v5e-16: 16 devices, mesh of one' in text
  assert '15 devices are idle: set c.mesh.fsdp to -1.' in text
  assert text.endswith('It fits.')
  one, two = (estimate(tiny(m), hardware.parse('1xL4')) for m in (grpo, oprl))
  assert two.memory.moments == 2 * one.memory.moments  # the PRM's
  assert two.flops.forward > one.flops.forward
  assert two.flops.rollout == one.flops.rollout


@pytest.fixture
def checkpoint(tmp_path):
  """A directory with a config.json of so many layers; no weights."""

  def write(layers: int) -> str:
    config = dict(
      model_type='qwen2', architectures=['Qwen2ForCausalLM'], hidden_size=4096,
      vocab_size=152_064, num_hidden_layers=layers, num_attention_heads=32,
      num_key_value_heads=8, intermediate_size=12_288, rms_norm_eps=1e-6,
      rope_theta=1e6, tie_word_embeddings=False, hidden_act='silu',
      initializer_range=0.02, max_position_embeddings=32_768,
    )  # fmt: skip
    (tmp_path / 'config.json').write_text(json.dumps(config))
    return str(tmp_path)

  return write


def test_what_to_change(checkpoint):
  path = checkpoint(16)
  c, where = tiny(), hardware.parse('8xH100')
  assert not report.fits(estimate(c, where, path), where)
  text = report.report(c, '8xH100', path)
  told = re.search(r'It does not fit\. With (.*) it needs', text)[1]
  for word in told.split():
    path_, value = re.fullmatch(r'--config\.(\S+)=(\S+)', word).groups()
    value = int(value) if value.isdecimal() else value
    c = report.applied(c, {path_: value})
  # The command that is told makes it fit.
  assert report.fits(estimate(c, where, path), where)
  assert 'mesh.fsdp=8' in told


def test_what_nothing_can_change(checkpoint):
  text = report.report(tiny(), 'v5e-4', checkpoint(64))
  assert re.search(r'does not fit, and neither .* \(LoRA\), or take more', text)


def test_adapters_cost_what_they_are():
  """One base for all roles; it is neither trained nor gone through alone."""
  where, plain, lean = hardware.parse('8xH100'), tiny(oprl), tiny(oprl)
  lean.lora.rank = 4
  for c in (plain, lean):
    c.mesh.fsdp = 8
  plain, lean = estimate(plain, where), estimate(lean, where)
  two = 2 * lean.memory.gradients  # adapters beside one decoder
  assert lean.memory.parameters == plain.memory.parameters / 2 + two
  assert lean.memory.moments < plain.memory.moments / 4
  assert lean.traffic.scatter < plain.traffic.scatter / 4
  assert lean.flops.forward == plain.flops.forward
  assert lean.flops.backward == plain.flops.backward / 2
  c = tiny()
  c.lora.rank = 4
  huge = report.language(c)
  huge = huge._replace(shape=dataclasses.replace(huge.shape, mlp=10**9))
  assert 'LoRA' not in report.advice(c, hardware.parse('1xL4'), huge)


def test_slot_engines_stay_beside_updates():
  """The policy's and one of each model that is a user or a judge."""
  where = hardware.parse('1xL4')
  c = grpo.get_config('tiny,env=interview,judge')
  c.service.judge.function = c.service.user.function
  alone = estimate(c, where)
  assert alone.memory.rollout == 0 < alone.memory.engines
  one = alone.memory.engines
  for who in ('user', 'judge'):  # of one capacity: they share a model
    c.service[who].update(function='', role='policy', context=512)
  shared = estimate(c, where)
  assert len(shared.work.engines) == 2
  c.service.judge.update(role='', run='runs/other')
  other = estimate(c, where)
  parameters = other.memory.parameters
  two = shared.memory.engines - one
  assert other.memory.engines == pytest.approx(one + 2 * two + parameters)
  assert other.memory.peak - shared.memory.peak == pytest.approx(
    two + parameters
  )


def test_a_chat_has_a_frame(tmp_path):
  """Tokens are those of the checkpoint, if its tokenizer is there."""
  c, where = tiny(), hardware.parse('1xL4')
  c.rollout.update(message=16, context=0)
  checkpoints.model(checkpoints.chat(tmp_path, 'chatml'))
  c.model.path = str(tmp_path)
  framed = estimate(c, where)
  assert 'in a chat' in report.report(c, '1xL4')
  c.rollout.frame = 'bare'
  assert 'without a chat' in report.report(c, '1xL4')
  assert framed.work.read > estimate(c, where).work.read
  (tmp_path / 'tokenizer.json').unlink()
  assert 'tokenizer embedded' in report.report(c, '1xL4')


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
  if alone:  # the embedding is not copied
    writes -= 4 * SHAPE.vocab * SHAPE.width
  assert close(memory.writing(shape, specs, sizes), writes, 1.1)
  here = WORK._replace(slots=WORK.slots // sizes['fsdp'])
  logits = 3 * 4 * here.slots * SHAPE.vocab / sizes['tensor']
  kept = memory.cache(shape, here, sizes['tensor']) - logits
  assert close(kept, reads, 1.2)


def test_bad_input():
  c = tiny()
  c.mesh.fsdp = 3
  with pytest.raises(ValueError, match=r'mesh .* needs 3 devices and 2 are'):
    report.report(c, '2xH100')
  with pytest.raises(
    ValueError, match=r'not divisible by 3, over which mesh.fsdp=3'
  ):
    report.report(c, '3xH100')


def rows(n: int, t: int) -> types.Rows:
  """Shapes alone, split over the mesh where one is set."""
  lies = None
  if mesh.active():
    lies = jax.NamedSharding(jax.sharding.get_mesh(), mesh.spec('batch'))

  def of(dtype):
    return jax.ShapeDtypeStruct((n, t), dtype, sharding=lies)

  ids, real, flag = of(jnp.int32), of(jnp.float32), of(jnp.bool_)
  return types.Rows(
    tokens=ids, seg=ids, traj=ids, turn=ids, span=of(jnp.int8), sampled=flag,
    weight=real, logp=real, version=ids,
  )  # fmt: skip


def compiled(context: Context, work):
  """A gradient over micro-batches and a step of the optimizer."""
  modules, rule = context.modules, optimizer.Rule()
  module = modules['policy']
  params = mesh.abstract(module.specs)
  base = {
    role: mesh.abstract(m.specs) for role, m in modules.items() if m != module
  }
  batch = rows(work.rows, work.tokens)

  def loss(out, rows, scale):
    return jnp.sum(out.logp * scale - 0.01 * out.entropy), {}

  def step(params, opt, base, rows, scale):
    needs = 'entropy', 'logp'
    whole = Learner(registry.Wiring(), context)
    apply = algorithm.bound(whole, base).context.modules['policy'].apply
    grads, _ = microbatch.gradient(
      apply, params, rows, scale, loss, needs, work.micro
    )
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
    pytest.param(*case, marks=pytest.mark.slow if slow else ())
    for *case, slow in CASES
  ],
  ids=[f'{c} {w.tokens} {s}' for c, w, s, _ in CASES],
)
def test_against_what_is_compiled(change, work, sizes):
  """Memory of an update, its products, and what is gathered."""
  change = dict(change)
  rank = change.pop('rank', 0)
  shape = transformer.Shape(**{**vars(SHAPE), **change})
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
