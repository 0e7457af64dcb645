"""Table of compiled programs: memory, traffic and a bound of utilisation."""

from collections.abc import Iterator, Sequence

from ml_collections import ConfigDict

from agentrl import mesh
from agentrl.capacity import hardware, report
from agentrl.capacity.hardware import Topology
from agentrl.capacity.tpu import compiler, hlo, slices
from agentrl.capacity.tpu.compiler import CompiledProgram
from agentrl.domain import suggest
from agentrl.run import pretrained
from agentrl.run.pretrained import Language

PROGRAMS = ('update', 'prefill', 'decode')  # of programs.py, which imports jax
REDUCED = ('all-reduce', 'reduce-scatter')


def check(names: Sequence[str], where: Topology) -> None:
  """Raises ValueError for what cannot be compiled here, before anything is."""
  for name in names:
    if name not in PROGRAMS:
      raise ValueError(
        f'--compile={name!r} is no program{suggest(name, PROGRAMS)}; choose'
        f' from {PROGRAMS}'
      )
  slices.torus(where)
  compiler.check_available()


def compiled(
  c: ConfigDict, where: Topology, lm: Language, name: str
) -> CompiledProgram:
  """Compiles a program of the config for the topology."""
  c = ConfigDict(c.to_dict())
  axes = {name: c.mesh[name] for name in mesh.AXES}
  c.mesh.update(mesh.sizes(axes, where.devices))
  shape, work = pretrained.computed(c, lm.shape), report.work(c, lm)
  torus = slices.torus(where)
  return compiler.compiled(
    compiler.CompileJob(c.to_dict(), shape, torus, name, work)
  )


def lines(
  c: ConfigDict, name: str, programs: Sequence[str], model: str | None = None
) -> Iterator[str]:
  """What the compiler says of each program, line by line."""
  where, lm = hardware.parse(name), report.language(c, model)
  yield f'compiled for {slices.torus(where)}, not run: GB of a device'
  for name in programs:
    program = compiled(c, where, lm, name)
    if program.refused:
      yield f'  {name}: does not fit; {program.refused}'
      continue
    yield report.line(f'{name}: arguments', program.arguments / 1e9)
    yield report.line('  temporaries', program.temporaries / 1e9)
    yield report.line('  at the fullest moment', program.hbm / 1e9)
    for kind, size in hlo.totals(program.collectives).items():
      yield report.line(f'  sent by {kind}', size / 1e9)
    if name == 'update':
      yield report.line(
        '  bound of utilisation', utilisation(c, where, lm, program)
      )


def utilisation(
  c: ConfigDict, where: Topology, lm: Language, program: CompiledProgram
) -> float:
  """Upper bound of the share of the peak rate that an update can use.

    FLOPs without what is computed again / devices / peak rate
      / ( all FLOPs / devices / peak rate + bytes reduced / links )

  Gathers run beside products, reductions do not: so TPU's compiler schedules
  them. Links at the full rate of one direction.
  """
  every = report.estimate(c, where, lm)
  plain = report.estimate(report.applied(c, {'model.remat': 'none'}), where, lm)
  products, _ = report.seconds(every, where)
  useful, _ = report.seconds(plain, where)
  sampling = every.flops.rollout / sum(every.flops) * products
  reduced = sum(x.bytes for x in program.collectives if x.kind in REDUCED)
  wire = reduced / (where.chip.links / 2)
  return (useful - sampling) / (products - sampling + wire)
