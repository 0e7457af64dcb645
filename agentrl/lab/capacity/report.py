"""Capacity report: the estimate of a config on a topology, and advice."""

import math
from collections.abc import Iterator
from typing import Any

from agentrl import mesh
from agentrl.configs import base
from agentrl.configs.config import Config
from agentrl.lab.capacity import estimate as estimate_lib
from agentrl.lab.capacity import hardware, pace
from agentrl.lab.capacity.estimate import Copies, Estimate, Workload
from agentrl.lab.capacity.hardware import Topology
from agentrl.learner.algorithm import Algorithm
from agentrl.model import hf_weights
from agentrl.nn.config import REMAT
from agentrl.rollout import registered
from agentrl.run import algorithm, pretrained
from agentrl.run.check import fields, staleness_checks, validate
from agentrl.run.play import host_env, jit_env
from agentrl.run.pretrained import Language
from agentrl.runtime import precision

_MOST_DEVICES = 4096  # that are tried
ROOM = 0.9  # of a chip's memory; the rest is the program's and the allocator's


def report(
  c: Config,
  name: str,
  model: str | None = None,
  measured: str | None = None,
) -> str:
  """Returns the table of the config on the topology, and what to change.

  Args:
    measured: seconds of a batch, or a run: see pace.read; on c's devices
  Raises: ValueError for a config or a topology that cannot be.
  """
  took = pace.read(measured) if measured else None
  where, lm = hardware.parse(name), language(c, model)
  step = estimate(c, where, lm)
  lines = [*table(c, where, step), counted(lm), '']
  lines.append('It fits.' if fits(step, where) else advice(c, where, lm))
  lines.append(fewest(c, where, lm))
  if took:
    lines += ['', *paced(c, where, took)]
  return '\n'.join(lines)


def language(c: Config, model: str | None = None) -> Language:
  """Reads the decoder and tokenizer of a checkpoint, or else of the config.

  Args:
    model: a directory, or a name on the hub; no weights are fetched
  Raises: ValueError for one that cannot be read.
  """
  if not (model or c.model.path):
    return pretrained.language(c)
  field = '--model' if model else 'model.path'
  path = model or c.model.path
  return pretrained.outline(
    c, hf_weights.locate(path, weights=False, field=field)
  )


def fits(step: Estimate, where: Topology) -> bool:
  return peak(step) <= ROOM * where.chip.memory


def peak(step: Estimate) -> float:
  """Counts bytes of the fullest device, at its fullest moment."""
  return max(x.peak for x in (step.memory, step.sampler) if x)


def estimate(c: Config, where: Topology, lm: Language) -> Estimate:
  """Estimates the cost of a step of the config on the topology."""
  c = on_topology(c, where)
  validate.config(c, devices=where.devices)
  shape = pretrained.computed(c, lm.shape)
  learner = algorithm.make_algorithm(c, shape)
  sizes, kept = mesh.shape_of(c.mesh), copies(c, learner)
  return estimate_lib.estimate(learner, shape, work(c, lm), sizes, kept)


def copies(c: Config, learner: Algorithm) -> Copies:
  """Returns the copies that batches of earlier policy versions need.

  The state has S of them in the order 'fixed'. Samplers in threads hold S + 1,
  or in the order 'latest' the newest and what each running batch began with.
  """
  s, depth = c.staleness, staleness_checks.depth(c)
  if not s.bound and not s.jobs:
    return Copies()
  reads, fixed = algorithm.reads(c, learner), s.order == 'fixed'
  return Copies(
    roles=reads.roles,
    still=reads.still,
    past=s.bound if fixed else 0,
    published=(s.bound if fixed else depth) + 1 if depth else 0,
    devices=staleness_checks.set_aside(c),
  )


def on_topology(c: Config, where: Topology) -> Config:
  """Fits the config to the topology: mesh sizes, and compute dtype."""
  sizes = mesh.shape_of(c.mesh)
  if not staleness_checks.set_aside(c):  # beside which every size must be named
    sizes = mesh.sizes(sizes, where.devices)
  changes: dict[str, Any] = {f'mesh.{x}': n for x, n in sizes.items()}
  if c.model.dtype == precision.AUTO:
    changes['model.dtype'] = 'bfloat16'  # accelerators, all of them
  return fields.changed(c, changes)


def work(c: Config, lm: Language) -> Workload:
  """Returns the workload of a step of the config; makes no task."""
  spec = base.wiring(c)
  hosted = registered.kind_of(spec).on_host
  kind = host_env if hosted else jit_env
  sized = kind.sized(c, lm.tokenizer, lm.chat)
  plan, size = sized.plan, sized.capacity
  afresh = plan.history == 'turn'
  values = spec.values('minibatch', c.minibatch)
  models = host_env.models(c)
  return Workload(
    rows=c.rollout.batch * (plan.turns if afresh else 1),
    tokens=size.row,
    micro=c.micro_batch,
    epochs=values.get('epochs', 1),
    batch=c.rollout.batch,
    slots=c.rollout.slots if hosted else min(c.rollout.slots, c.rollout.batch),
    turns=plan.turns,
    read=size.context,
    message=plan.message,
    afresh=afresh,
    capacity=size.cache,
    engines=(size.cache, *models.values()) if hosted else (),
    guests=len({run for _, run in models if run}),
  )


def table(c: Config, where: Topology, e: Estimate) -> Iterator[str]:
  """Writes lines for people to read."""
  w, m, chip = e.work, e.memory, where.chip
  used = math.prod(e.sizes.values()) + staleness_checks.set_aside(c)
  axes = ' '.join(f'{name}={n}' for name, n in e.sizes.items() if n > 1)
  axes = axes or 'of one'
  apart = f', {n} that collect' if (n := staleness_checks.set_aside(c)) else ''
  yield (
    f'{c.method} on {where.name}: {where.devices} devices, mesh {axes}{apart}'
  )
  yield f'({chip.source})'
  if used < where.devices:
    yield f'{where.devices - used} devices are idle: set c.mesh.fsdp to -1.'
  yield ''
  yield 'memory of a device                   GB'
  yield from _lines(m, 1e9)
  yield line('at the fullest moment', m.peak / 1e9)
  if e.sampler:
    yield line('one that collects', e.sampler.peak / 1e9)
  yield line('there is', chip.memory / 1e9)
  yield ''
  yield 'a step, all devices      10^12 FLOPs'
  yield from _lines(e.flops, 1e12)
  yield ''
  yield f'tokens of a step: {w.rows * w.tokens:,} read in {w.rows:,} rows,'
  yield f'  of which {w.written:,} sampled in {w.batch * w.turns:,} turns'
  update, rollout = seconds(e, where)
  both = max(update, rollout) if e.sampler else update + rollout
  yield f'seconds at least: {update:.3g} an update, {rollout:.3g} a rollout;'
  yield f'  at most {w.written / both:,.0f} sampled tokens a second'


def seconds(e: Estimate, where: Topology) -> tuple[float, float]:
  """Bounds seconds of an update and a rollout from below, at peak rates."""
  w, chip, used = e.work, where.chip, math.prod(e.sizes.values())
  passes = w.turns * w.message * -(-w.batch // w.slots)
  return (
    (e.flops.forward + e.flops.backward) / (used * chip.flops),
    max(
      e.flops.rollout / (e.collectors * chip.flops),
      passes * e.weights / chip.bandwidth,
    ),
  )


def paced(c: Config, where: Topology, took: pace.Pace) -> Iterator[str]:
  """Writes lines on the staleness to take at a pace measured on c's devices."""
  sizes = mesh.shape_of(on_topology(c, where).mesh)
  learners = math.prod(sizes.values())
  return pace.lines(
    took,
    learners=learners,
    collectors=c.staleness.devices or learners,
    devices=where.devices,
  )


def counted(lm: Language) -> str:
  """Returns a line that names the tokenizer of the counts."""
  chat = 'in a chat' if lm.chat else 'without a chat'
  return f'tokens are counted by tokenizer {lm.tokenizer.name}, {chat}'


def advice(c: Config, where: Topology, lm: Language) -> str:
  """Returns the first changes with which it fits, or that there are none."""
  for changes in candidates(c, where):
    least = changes['mesh.fsdp']
    # The smallest micro-batches first: where they do not fit, none do.
    if _fitting(c, changes | {'micro_batch': least}, where, lm) is None:
      continue
    micro = c.micro_batch
    while not (
      step := _fitting(c, changes | {'micro_batch': micro}, where, lm)
    ):
      micro = max(least, micro // 2)
    if micro != c.micro_batch:
      changes |= {'micro_batch': micro}
    flags = _flags(c, changes)
    return f'It does not fit. With {flags} it needs {peak(step) / 1e9:.3g} GB.'
  learner = algorithm.make_algorithm(c, lm.shape)
  total = 4 * mesh.count(estimate_lib.decoder(learner)) / 1e9
  room = ROOM * where.chip.memory * where.devices / 1e9
  way, grown = '', ''
  if not estimate_lib.frozen(learner):
    grown = ' (four times that with gradients and moments)'
    way = 'train adapters on a frozen base (LoRA), or '
  return (
    'It does not fit, and neither smaller micro-batches, bfloat16,'
    f' recomputing nor another mesh make it: the model has {total:.3g} GB of'
    f' parameters{grown} and {room:.3g} GB are there; {way}take more devices'
  )


def fewest(c: Config, where: Topology, lm: Language) -> str:
  """Finds the fewest devices of this kind on which it fits: of 1, 2, 4, ..."""
  for count in (2**i for i in range(_MOST_DEVICES.bit_length())):
    there = hardware.scaled(where, count)
    for changes in candidates(c, there):
      most = max(changes['mesh.fsdp'], c.micro_batch)
      for micro in dict.fromkeys((most, changes['mesh.fsdp'])):
        if _fitting(c, changes | {'micro_batch': micro}, there, lm):
          flags = _flags(c, changes | {'micro_batch': micro})
          how = f' with {flags}' if flags else ''
          return f'The fewest on which it fits: {there.name}{how}.'
  return f'It fits on no power of two up to {_MOST_DEVICES} of them.'


def _flags(c: Config, changes: dict) -> str:
  """Returns the flags that make these changes."""
  now = fields.flat(c)
  return ' '.join(
    f'--config.{k}={v}' for k, v in changes.items() if now.get(k) != v
  )


def _fitting(
  c, changes: dict, where: Topology, lm: Language
) -> Estimate | None:
  """Returns the estimate of the changed config if it fits, else None."""
  try:
    step = estimate(fields.changed(c, changes), where, lm)
  except ValueError:  # a mesh that the model or the batch does not divide into
    return None
  return step if fits(step, where) else None


def candidates(c: Config, where: Topology) -> Iterator[dict]:
  """Lists changes of the config, those that cost least first.

  Splitting over all devices costs traffic, bfloat16 digits, and what is
  recomputed up to a third of the time; each adds to the last.
  """
  heavier = REMAT[REMAT.index(c.model.remat) + 1 :]
  for tensor in (1, 2, 4, 8):
    changes = {f'mesh.{name}': 1 for name in mesh.AXES}
    devices = where.devices - staleness_checks.set_aside(c)
    changes |= {'mesh.fsdp': max(1, devices // tensor)}
    changes |= {'mesh.tensor': tensor}
    yield changes
    if c.model.dtype != 'bfloat16':
      changes = changes | {'model.dtype': 'bfloat16'}
      yield changes
    for remat in heavier:
      changes = changes | {'model.remat': remat}
      yield changes


def _lines(parts, unit: float) -> Iterator[str]:
  for name, value in parts._asdict().items():
    yield line(name, value / unit)


def line(name: str, value: float) -> str:
  """Returns a row of a table."""
  return f'  {name:<24} {value:>10.3f}'
