"""Counts of a scheduled HLO module: kernels, conditionals, casts and copies.

A kernel is an instruction outside of fusions that does work on a device: a
fusion, a product, a copy, a call of a library. A sort counts once, although it
may be launched as several. What a loop runs counts as often as it does, what a
conditional runs as between its shortest and its longest branch.
"""

import collections
import dataclasses
import math
from collections.abc import Iterator
from typing import NamedTuple

from agentrl.lab.capacity.compiled import hlo
from agentrl.lab.capacity.compiled.hlo import HloModule, Instruction

# fmt: off
# Instructions that do nothing on a device.
_FREE = frozenset((
  'parameter', 'constant', 'tuple', 'get-tuple-element', 'bitcast',
  'after-all', 'partition-id', 'replica-id', 'opt-barrier', 'add-dependency',
))
# What a kernel that only moves numbers consists of.
_MOVES = _FREE | frozenset((
  'copy', 'transpose', 'reshape', 'slice', 'dynamic-slice', 'concatenate',
  'broadcast',
))
# fmt: on
_LARGE = 2**16  # numbers; fewer are not worth a word


@dataclasses.dataclass(frozen=True)
class Counts:
  """What a computation runs."""

  least: int = 0  # kernels, by the shortest branches
  most: int = 0  # by the longest
  conditionals: int = 0
  # Kernels that only cast: as many numbers as a parameter, or a layer of one.
  casts: int = 0
  cast_bytes: float = 0.0  # that they write
  copies: int = 0  # kernels that only move numbers, 2^16 or more
  copy_bytes: float = 0.0

  def __add__(self, other: 'Counts') -> 'Counts':
    return self._each(lambda x, y: x + y, other)

  def __mul__(self, times: int) -> 'Counts':
    return self._each(lambda x, _: x * times, self)

  def either(self, other: 'Counts') -> 'Counts':
    """Returns counts of one of two branches."""
    out = self._each(max, other)
    return dataclasses.replace(out, least=min(self.least, other.least))

  def _each(self, f, other: 'Counts') -> 'Counts':
    names = [x.name for x in dataclasses.fields(self)]
    return Counts(**{x: f(getattr(self, x), getattr(other, x)) for x in names})


class Loop(NamedTuple):
  """A loop, in the order of the schedule; loops inside follow it."""

  source: str  # as Instruction.source
  depth: int  # loops around it
  trips: int | None  # None: as data says
  trip: Counts  # of one, with its condition and with the loops inside
  body: str  # its computation


def program(module: HloModule, unknown: int = 1) -> tuple[Counts, list[Loop]]:
  """Returns counts of a run of the module, and of a trip of each loop.

  Args:
    unknown: trips of a loop whose end depends on data and that is in no other;
      others of that kind run once
  """
  loops: list[Loop] = []
  counter = _Counter(module, unknown, _parameters(module), loops)
  return counter.computation(module.entry, 0), loops


def layer(
  module: HloModule, body: str, layers: int
) -> list[tuple[Instruction, int]]:
  """Counts kernels of one of the layers that a body has one behind the other.

  Of conditionals, those of the longest branch. Kernels are alike if they do
  the same to the same shapes.

  Returns: the first of each kind, and how many of it a layer has
  """
  kinds: dict[tuple, list[Instruction]] = collections.defaultdict(list)
  for x in _longest(module, body):
    inner = tuple(y.op for y in _inside(module, x))
    kinds[x.op, x.shape.split('{')[0], inner].append(x)
  each = ((of[0], round(len(of) / layers)) for of in kinds.values())
  return [(x, n) for x, n in each if n]


def of_layer(module: HloModule, loop: Loop, layers: int) -> int:
  """Returns the kernels of a layer in a trip of the loop; 0: it has none.

  A loop over the layers has one in each trip; one that has them one behind the
  other consists mostly of them.
  """
  if loop.trips == layers:
    return loop.trip.most
  kernels = sum(n for _, n in layer(module, loop.body, layers))
  return kernels if 2 * kernels * layers >= loop.trip.most else 0


def is_kernel(x: Instruction) -> bool:
  """Returns whether the instruction is launched; no loop and no branch is."""
  free = x.op in _FREE or x.op.endswith(('-done', '-update'))
  return not free and x.op not in ('while', 'conditional', 'call')


class _Counter(NamedTuple):
  module: HloModule
  unknown: int
  parameters: frozenset[int]
  loops: list[Loop]

  def computation(self, name: str, depth: int) -> Counts:
    total = Counts()
    for x in self.module.computations.get(name, ()):
      total += self._instruction(x, depth)
    return total

  def _instruction(self, x: Instruction, depth: int) -> Counts:
    if x.op == 'while':
      return self._loop(x, depth)
    if x.op == 'call':
      return sum((self.computation(y, depth) for y in x.called), Counts())
    if x.op == 'conditional':
      first, *others = (self.computation(y, depth) for y in x.called)
      for other in others:
        first = first.either(other)
      return first + Counts(conditionals=1)
    if not is_kernel(x):
      return Counts()
    return Counts(least=1, most=1) + self._moved(x)

  def _loop(self, x: Instruction, depth: int) -> Counts:
    at, n = len(self.loops), hlo.trips(self.module, x)
    (body,) = x.called
    self.loops.append(Loop(x.source, depth, n, Counts(), body))
    trip = self.computation(body, depth + 1)
    trip += self.computation(x.condition, depth + 1)
    self.loops[at] = self.loops[at]._replace(trip=trip)
    unknown = 1 if depth else self.unknown
    return trip * (unknown if n is None else n)

  def _moved(self, x: Instruction) -> Counts:
    """Counts what a kernel casts or copies, if it does nothing else."""
    inside = _inside(self.module, x) or [x]
    # Arithmetic of single numbers says where a layer begins.
    ops = {y.op for y in inside if any(n > 1 for _, n in _numbers(y))}
    if not ops <= _MOVES | {'convert'} or ops <= _FREE | {'broadcast'}:
      return Counts()
    every = _numbers(x)
    if 'convert' in ops:
      cast = [bits / 8 * n for bits, n in every if n in self.parameters]
      return Counts(casts=int(bool(cast)), cast_bytes=sum(cast))
    size = sum(bits / 8 * n for bits, n in every if n >= _LARGE)
    return Counts(copies=int(bool(size)), copy_bytes=size)


def _numbers(x: Instruction) -> list[tuple[int, int]]:
  """Counts bits of a number, and numbers, of every array of the result."""
  return [(bits, math.prod(dims)) for bits, dims in hlo.arrays(x.shape)]


def _parameters(module: HloModule) -> frozenset[int]:
  """Counts numbers of large parameters, and of one layer if stacked."""
  sizes = set()
  for x in module.computations[module.entry]:
    for _, dims in hlo.arrays(x.shape) if x.op == 'parameter' else ():
      whole = math.prod(dims)
      sizes |= {whole} | ({whole // dims[0]} if len(dims) > 2 else set())
  return frozenset(n for n in sizes if n >= _LARGE)


def _longest(module: HloModule, name: str) -> Iterator[Instruction]:
  """Counts kernels of a computation, of loops none, of branches the longest."""
  for x in module.computations.get(name, ()):
    if x.op == 'conditional':
      yield from max((list(_longest(module, y)) for y in x.called), key=len)
    elif x.op == 'call':
      for called in x.called:
        yield from _longest(module, called)
    elif is_kernel(x):
      yield x


def _inside(module: HloModule, x: Instruction) -> list[Instruction]:
  """Lists the instructions of a fusion."""
  names = x.called if x.op == 'fusion' else []
  return [y for name in names for y in module.computations.get(name, ())]
