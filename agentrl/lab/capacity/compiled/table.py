"""Table of compiled programs: memory, traffic and a bound of utilisation."""

import dataclasses
import math
from collections.abc import Iterator, Sequence

from agentrl import mesh
from agentrl.configs import base
from agentrl.configs.config import Config, to_dict
from agentrl.domain import suggest
from agentrl.lab.capacity import estimate, hardware, report
from agentrl.lab.capacity.estimate import Workload
from agentrl.lab.capacity.hardware import Topology
from agentrl.lab.capacity.compiled import compiler, hlo, targets
from agentrl.lab.capacity.compiled.compiler import CompiledProgram
from agentrl.lab.capacity.compiled.programs import PROGRAMS
from agentrl.nn.config import DecoderConfig
from agentrl.rollout import registered
from agentrl.run import algorithm, pretrained

REDUCED = ('all-reduce', 'reduce-scatter')


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
  targets.torus(where)
  compiler.check_available()


def compiled(
  c: Config,
  shape: DecoderConfig,
  work: Workload,
  where: Topology,
  name: str,
  model: str | None = None,
) -> CompiledProgram:
  """Compiles a program of the config for the topology."""
  torus = targets.torus(where)
  return compiler.compiled(
    compiler.CompileJob(to_dict(c), shape, torus, name, work, model)
  )


def lines(
  c: Config, name: str, programs: Sequence[str], model: str | None = None
) -> Iterator[str]:
  """What the compiler says of each program, line by line."""
  where, lm = hardware.parse(name), report.language(c, model)
  shape, work = pretrained.computed(c, lm.shape), report.work(c, lm)
  yield f'compiled for {targets.torus(where)}, not run: GB of a device'
  for name in programs:
    program = compiled(c, shape, work, where, name, model)
    if program.refused:
      yield f'  {name}: does not fit; {program.refused}'
      continue
    yield report.line(f'{name}: arguments', program.arguments / 1e9)
    yield report.line('  temporaries', program.temporaries / 1e9)
    yield report.line('  at the fullest moment', program.hbm / 1e9)
    for kind, size in hlo.totals(program.collectives).items():
      yield report.line(f'  sent by {kind}', size / 1e9)
    if name == 'update':
      bound = utilisation(c, shape, work, where, program)
      yield report.line('  bound of utilisation', bound)


def utilisation(
  c: Config,
  shape: DecoderConfig,
  work: Workload,
  where: Topology,
  program: CompiledProgram,
) -> float:
  """Upper bound of the share of the peak rate that an update can use.

    FLOPs without what is computed again / devices / peak rate
      / ( all FLOPs / devices / peak rate + bytes reduced / links )

  Gathers run beside products, reductions do not: so TPU's compiler schedules
  them. Links are used at the full rate of one direction.
  """
  every, useful = (
    _flops(c, dataclasses.replace(shape, remat=remat), work)
    for remat in (shape.remat, 'none')
  )
  sizes = report.on_topology(c, where).mesh
  devices = math.prod(getattr(sizes, name) for name in mesh.AXES)
  rate = devices * where.chip.flops
  reduced = sum(x.bytes for x in program.collectives if x.kind in REDUCED)
  return useful / rate / (every / rate + reduced / (where.chip.links / 2))


def _flops(c: Config, shape: DecoderConfig, work: Workload) -> float:
  """FLOPs of an update of the config."""
  flops = estimate.flops(algorithm.make_algorithm(c, shape), shape, work)
  return flops.forward + flops.backward
