"""Kernels of a call by parts of the model, from JAX's profiler.

A kernel belongs to the innermost scope of PARTS in which its instruction was
made (`jax.named_scope`); what is outside of all is `other`. Instructions of a
trace have names alone: where they come from is read from the programs that are
compiled. On a CPU the instructions of XLA's threads count as kernels.
"""

import collections
import pathlib
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
from jax.extend import backend

from agentrl.lab.capacity.compiled import counts, hlo
from agentrl.lab.capacity.compiled.hlo import Instruction

# fmt: off
PARTS = (
  'embed', 'attention', 'cache', 'mlp', 'head', 'draw', 'advantage',
  'optimizer',
)
# fmt: on
_PART = re.compile(rf'\b({"|".join(PARTS)})\b')


class Part(NamedTuple):
  """Kernels of one part of the model, in one direction."""

  name: str  # among PARTS, or 'other'
  backward: bool  # of a gradient; what is computed again for it, too
  kernels: int
  seconds: float  # of all of them; they may overlap


def of(call: Callable[[], Any]) -> list[Part]:
  """Profiles a call that is compiled already; parts, the longest first."""
  with tempfile.TemporaryDirectory() as folder:
    with jax.profiler.trace(folder):
      jax.block_until_ready(call())
    (path,) = pathlib.Path(folder).glob('**/*.xplane.pb')
    data = jax.profiler.ProfileData.from_file(str(path))
    events = list(_events(data))
  return parts(events, _instructions({module for module, *_ in events}))


def parts(
  events: Iterable[tuple[str, str, float]],
  instructions: Mapping[tuple[str, str], Instruction],
) -> list[Part]:
  """Sums kernels by part and direction, the longest first.

  Args:
    events: (module, instruction, seconds)
    instructions: by module and name; others count as `other`
  """
  kernels: dict[tuple[str, bool], int] = collections.defaultdict(int)
  seconds: dict[tuple[str, bool], float] = collections.defaultdict(float)
  for module, name, duration in events:
    x = instructions.get((module, name))
    if x is None or counts.is_kernel(x):
      at = part(x.source if x else '')
      kernels[at] += 1
      seconds[at] += duration
  return [
    Part(name, backward, kernels[name, backward], s)
    for (name, backward), s in sorted(seconds.items(), key=lambda x: -x[1])
  ]


def part(source: str) -> tuple[str, bool]:
  """Names the part and the direction of an op_name of JAX."""
  found = _PART.findall(source)
  return found[-1] if found else 'other', 'transpose(' in source


def table(found: Iterable[Mapping[str, Any]]) -> Iterator[str]:
  """Yields a line for each part, as `Part._asdict` has it."""
  every = list(found)
  total = sum(x['seconds'] for x in every)
  for x in every:
    name = x['name'] + ', backward' * x['backward']
    yield (
      f'{name:<22}{x["kernels"]:>8} kernels {1e3 * x["seconds"]:>10.3f} ms'
      f' {x["seconds"] / total:>5.0%}'
    )


def _events(data) -> Iterator[tuple[str, str, float]]:
  """Lists instructions that ran, from the lines of devices or of the host."""
  for plane in data.planes:
    for line in plane.lines:
      for event in line.events:
        stats = dict(event.stats)
        if 'hlo_op' in stats:
          yield stats['hlo_module'], stats['hlo_op'], event.duration_ns / 1e9


def _instructions(names: set[str]) -> dict[tuple[str, str], Instruction]:
  """Lists instructions of the compiled modules by name; the latest of each."""
  out = {}
  for executable in backend.get_backend().live_executables():
    for module in executable.hlo_modules():
      if module.name in names:
        found = hlo.parse(module.to_string()).computations.values()
        out |= {(module.name, x.name): x for lines in found for x in lines}
  return out
