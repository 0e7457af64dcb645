"""Table of compiled programs: memory, traffic, kernels, and a bound.

Kernels are counted by loops (counts.py): of decoding, a trip is a token of all
slots; of an update, a micro-batch, and within one a layer.
"""

import dataclasses
import math
from collections.abc import Iterator, Sequence

from agentrl import mesh
from agentrl.configs import base
from agentrl.configs.config import Config, to_dict
from agentrl.domain import suggest
from agentrl.lab.capacity import estimate, hardware, report
from agentrl.lab.capacity.compiled import compiler, hlo, targets
from agentrl.lab.capacity.compiled.compiler import CompiledProgram
from agentrl.lab.capacity.compiled.counts import Counts, Loop
from agentrl.lab.capacity.compiled.graphs import Graphs
from agentrl.lab.capacity.compiled.programs import PROGRAMS
from agentrl.lab.capacity.estimate import Workload
from agentrl.lab.capacity.hardware import Topology
from agentrl.nn.config import DecoderConfig
from agentrl.rollout import registered
from agentrl.run import algorithm, pretrained

REDUCED = ('all-reduce', 'reduce-scatter')
SHORT = 10  # kernels; loops of fewer are not shown
KERNELS = (
  'trips',
  'kernels',
  'a layer',
  'conditions',
  'casts',
  'cast GB',
  'copies',
  'copied GB',
  'graphs',
  'in none',
)


def check(c: Config, names: Sequence[str], where: Topology) -> None:
  """Raises ValueError for what cannot be compiled here, before anything is."""
  spec = base.wiring(c)
  on_host = registered.kind_of(spec).on_host or spec.judge
  if 'rollout' in names and on_host:
    raise ValueError(
      f'--compile=rollout: env.name={c.env.name!r} with judge={spec.judge} is'
      ' played on hosts, and a rollout is one program inside jit alone; compile'
      ' prefill and decode'
    )
  for name in names:
    if name not in PROGRAMS:
      raise ValueError(
        f'--compile must be among {tuple(PROGRAMS)}, got {name!r}'
        f'{suggest(name, PROGRAMS)}'
      )
  targets.check_available(targets.target(where).platform)


def compiled(
  c: Config,
  shape: DecoderConfig,
  work: Workload,
  where: Topology,
  name: str,
  model: str | None = None,
) -> CompiledProgram:
  """Compiles a program of the config for the topology.

  What is too large for a device is refused, as TPU's compiler does by itself.
  """
  target = targets.target(where)
  made = compiler.compiled(
    compiler.CompileJob(to_dict(c), shape, target, name, work, model)
  )
  if made.refused or made.hbm <= where.chip.memory:
    return made
  need, has = made.hbm / 1e9, where.chip.memory / 1e9
  return made._replace(
    refused=f'it needs {need:.1f} GB of a device, which has {has:.1f} GB'
  )


def lines(
  c: Config, name: str, programs: Sequence[str], model: str | None = None
) -> Iterator[str]:
  """Reports what the compiler says of each program, line by line."""
  where, lm = hardware.parse(name), report.language(c, model)
  c = report.on_topology(c, where)
  shape, work = pretrained.computed(c, lm.shape), report.work(c, lm)
  target = targets.target(where)
  yield f'compiled for {target.name}, not run: GB of a device'
  for name in programs:
    program = compiled(c, shape, work, where, name, model)
    if program.refused:
      yield f'  {name}: does not fit; {program.refused}'
      continue
    yield report.line(f'{name}: arguments', program.arguments / 1e9)
    yield report.line('  temporaries', program.temporaries / 1e9)
    yield report.line('  at the fullest moment', program.hbm / 1e9)
    sent = program.collectives
    for kind, size in hlo.totals(sent).items():
      yield report.line(f'  sent by {kind}', size / 1e9)
    for axes, size in hlo.by_axes(sent, mesh.shape_of(c.mesh)).items():
      yield report.line(f'  sent along {axes or "none"}', size / 1e9)
    if name == 'update' and target.platform == 'tpu':
      bound = utilisation(c, shape, work, where, program)
      yield report.line('  bound of utilisation', bound)
    yield from kernels(program)


def kernels(program: CompiledProgram) -> Iterator[str]:
  """Lists rows of the program and of a trip of each loop of >= SHORT kernels.

  Kernels with the longest branches; casts are those of parameters, and in the
  last columns CUDA graphs and the kernels in none.
  """
  yield f'  {"":<22}' + ''.join(f'{x:>11}' for x in KERNELS)
  yield _row('all', '', program.counts, '', program.graphs[:1])
  for at, x in enumerate(program.loops):
    if x.trip.most >= SHORT:
      trips = 'data' if x.trips is None else str(x.trips)
      layer = str(program.layers[at] or '')
      launched = program.graphs[at + 1 : at + 2]
      yield _row(_name(x), trips, x.trip, layer, launched)


def _row(
  name: str,
  trips: str,
  counts: Counts,
  layer: str,
  launched: Sequence[Graphs],
) -> str:
  figures = [
    trips,
    str(counts.most),
    layer,
    str(counts.conditionals),
    str(counts.casts),
    f'{counts.cast_bytes / 1e9:.3f}',
    str(counts.copies),
    f'{counts.copy_bytes / 1e9:.3f}',
    *(f'{x.graphs}' for x in launched),
    *(f'{x.alone}' for x in launched),
  ]
  return f'  {name:<22}' + ''.join(f'{x:>11}' for x in figures)


def _name(loop: Loop) -> str:
  """Names what a loop is of, under the loops around it: '  forward'."""
  way = 'loop'
  if 'jvp(' in loop.source:
    way = 'backward' if 'transpose(' in loop.source else 'forward'
  return '  ' * (loop.depth + 1) + way


def utilisation(
  c: Config,
  shape: DecoderConfig,
  work: Workload,
  where: Topology,
  program: CompiledProgram,
) -> float:
  """Bounds the share of the peak rate that an update can use, from above.

    FLOPs without what is computed again / devices / peak rate
      / ( all FLOPs / devices / peak rate + bytes reduced / links )

  Gathers run beside products, reductions do not: so TPU's compiler schedules
  them. Links are used at the full rate of one direction.
  """
  every, useful = (
    _flops(c, dataclasses.replace(shape, remat=remat), work)
    for remat in (shape.remat, 'none')
  )
  devices = math.prod(mesh.shape_of(report.on_topology(c, where).mesh).values())
  rate = devices * where.chip.flops
  reduced = sum(x.bytes for x in program.collectives if x.kind in REDUCED)
  return useful / rate / (every / rate + reduced / (where.chip.links / 2))


def _flops(c: Config, shape: DecoderConfig, work: Workload) -> float:
  """Counts the FLOPs of an update of the config."""
  flops = estimate.flops(algorithm.make_algorithm(c, shape), shape, work)
  return flops.forward + flops.backward
