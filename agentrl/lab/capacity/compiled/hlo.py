"""Collectives of a scheduled HLO module, with the trip counts of its loops.

Bytes are those that a device sends round a ring of the n devices of its group:

  all-gather, all-to-all   (n − 1) / n of the result
  reduce-scatter           (n − 1) / n of the argument
  all-reduce               twice that
  collective-permute       the result

TPU's compiler writes many a reduce-scatter as an all-reduce inside a fusion
`all-reduce-scatter`, and one asynchronous all-gather as several instructions of
one channel inside fusions; here they are what they do.
"""

import collections
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

KINDS = (
  'all-gather',
  'all-reduce',
  'reduce-scatter',
  'all-to-all',
  'collective-permute',
)
_BITS = {'pred': 8, 's4': 4, 'u4': 4, 'bf16': 16}

_COMPUTATION = re.compile(r'^(?:ENTRY )?%(?P<name>[\w.-]+) \(.*\{$')
_INSTRUCTION = re.compile(
  r'^\s+(?:ROOT )?%(?P<name>[\w.-]+) = (?P<shape>.*?) (?P<op>[a-z][\w-]*)\('
  r'(?P<rest>.*)$'
)
_ARRAY = re.compile(r'\b(?P<type>pred|bf16|[fsu]\d+\w*)\[(?P<dims>[\d,]*)\]')
_IOTA = r'\[([\d,]+)\](?:T\(([\d,]+)\))?'
_CALLED = re.compile(
  r'\b(?:calls|to_apply|body|branch_computations|true_computation|'
  r'false_computation)=\{?(?P<names>%[\w.-]+(?:, %[\w.-]+)*)'
)


class Instruction(NamedTuple):
  """A line of a computation."""

  name: str
  shape: str  # of the result, as written
  op: str
  rest: str  # operands and attributes

  @property
  def called(self) -> list[str]:
    lists = _CALLED.findall(self.rest)
    return [x.strip().lstrip('%') for names in lists for x in names.split(',')]

  @property
  def condition(self) -> str:
    """The computation that ends a loop; '' of other instructions."""
    found = re.search(r'\bcondition=%([\w.-]+)', self.rest)
    return found[1] if found else ''

  @property
  def source(self) -> str:
    """Where JAX says that it comes from: 'jit(update)/while/body/mul'."""
    found = re.search(r'\bop_name="([^"]*)"', self.rest)
    return found[1] if found else ''


class Collective(NamedTuple):
  """Collectives of one kind and shape, of one place in the module."""

  kind: str  # among KINDS
  shape: str  # of the result
  members: tuple[int, ...]  # devices of the first group
  times: int  # in a run of the program
  bytes: float  # sent by a device, all times together


class HloModule(NamedTuple):
  """Computations by name."""

  computations: dict[str, list[Instruction]]
  entry: str


def parse(text: str) -> HloModule:
  """Reads the text of a module.

  Raises: ValueError if it has no entry.
  """
  computations: dict[str, list[Instruction]] = {}
  entry, lines = '', None
  for line in text.splitlines():
    if head := _COMPUTATION.match(line):
      lines = computations.setdefault(head['name'], [])
      entry = head['name'] if line.startswith('ENTRY') else entry
    elif lines is not None and (match := _INSTRUCTION.match(line)):
      lines.append(Instruction(**match.groupdict()))
  if not entry:
    raise ValueError('an HLO module must have an ENTRY computation, got none')
  return HloModule(computations, entry)


def collectives(module: HloModule, unknown: int = 1) -> list[Collective]:
  """Returns every collective of a run of the module.

  Args:
    unknown: trips of a loop whose end depends on data
  """
  return list(_of(module, module.entry, 1, unknown))


def totals(each: Iterable[Collective]) -> dict[str, float]:
  """Sums bytes by kind, those that occur."""
  out: dict[str, float] = collections.defaultdict(float)
  for x in each:
    out[x.kind] += x.bytes
  return {kind: out[kind] for kind in KINDS if kind in out}


def by_axes(
  each: Iterable[Collective], sizes: Mapping[str, int]
) -> dict[str, float]:
  """Sums bytes by the axes that a group's members lie along: 'data fsdp'.

  Args:
    sizes: of the axes of the mesh, outermost first
  """
  out: dict[str, float] = collections.defaultdict(float)
  for x in each:
    places = np.unravel_index(list(x.members), tuple(sizes.values()))
    along = zip(sizes, places, strict=True)
    out[' '.join(name for name, at in along if len(set(at)) > 1)] += x.bytes
  return dict(out)


def array_bytes(shape: str) -> float:
  """Returns the bytes of an HLO shape; of a tuple, of all its arrays."""
  return sum(bits / 8 * math.prod(dims) for bits, dims in arrays(shape))


def arrays(shape: str) -> list[tuple[int, list[int]]]:
  """Returns (bits of a number, dimensions) of every array of an HLO shape."""
  return [
    (_bits(x['type']), [int(n) for n in x['dims'].split(',') if n])
    for x in _ARRAY.finditer(shape)
  ]


def largest(module: HloModule) -> list[tuple[float, str]]:
  """Lists arrays that instructions outside of fusions make, largest first.

  Returns: (bytes, shape) of each shape once.
  """
  inside = {
    name
    for lines in module.computations.values()
    for x in lines
    if x.op == 'fusion'
    for name in x.called
  }
  shapes = {
    match[0]
    for name, lines in module.computations.items()
    if name not in inside
    for x in lines
    for match in _ARRAY.finditer(x.shape)
  }
  return sorted(((array_bytes(x), x) for x in shapes), reverse=True)


def trips(module: HloModule, loop: Instruction) -> int | None:
  """Counts the runs of a loop from 0; None: as often as data says."""
  if known := re.search(r'"known_trip_count":\{"n":"(\d+)"', loop.rest):
    return int(known[1])
  lines = module.computations[loop.condition] if loop.condition else []
  constants = {
    x.name: int(x.rest.split(')')[0])
    for x in lines
    if x.op == 'constant' and re.match(r'-?\d+\)', x.rest)
  }
  used = [
    constants[name]
    for x in lines
    if x.op == 'compare' and 'direction=LT' in x.rest
    for name in re.findall(r'%([\w.-]+)', x.rest.split(')')[0])
    if name in constants
  ]
  if not used:  # the comparison is a fusion of its own
    used = list(constants.values()) if len(constants) == 1 else []
  return used[0] if used else None


def _of(
  module: HloModule, name: str, times: int, unknown: int
) -> Iterator[Collective]:
  """Yields the collectives of a computation that runs `times` times."""
  seen = set()  # parts of one transfer share a channel
  for x, fusion in _lines(module, name):
    if x.op == 'while':
      n = trips(module, x)
      (body,) = x.called
      yield from _of(
        module, body, times * (unknown if n is None else n), unknown
      )
    elif x.op in ('call', 'conditional'):
      for called in x.called:
        yield from _of(module, called, times, unknown)
    elif (kind := x.op.removesuffix('-start')) in KINDS:
      channel = re.search(r'channel_id=(\d+)', x.rest)
      if channel and (kind, channel[1]) in seen:
        continue
      seen.add((kind, channel and channel[1]))
      scattered = kind == 'all-reduce' and 'all-reduce-scatter' in fusion
      yield _collective('reduce-scatter' if scattered else kind, x, times)


def _lines(
  module: HloModule, name: str, fusion: str = ''
) -> Iterator[tuple[Instruction, str]]:
  """Lists instructions of a computation and its fusions, with their names."""
  for x in module.computations.get(name, ()):
    if x.op == 'fusion' or x.op.startswith('async'):
      for called in x.called:
        yield from _lines(module, called, called)
    else:
      yield x, fusion


def _collective(kind: str, x: Instruction, times: int) -> Collective:
  shape = x.shape
  if x.op.endswith('-start') and shape.startswith('('):
    each = [match[0] for match in _ARRAY.finditer(shape)]
    shape = ', '.join(each[len(each) // 2 :])  # arguments, then results
  group = members(x.rest)
  n = len(group)
  size = array_bytes(shape)
  if x.op == 'reduce-scatter':
    size *= n  # the argument's
  part = (n - 1) / n * {'all-reduce': 2}.get(kind, 1)
  if kind == 'collective-permute':
    part = 1.0
  return Collective(kind, shape, group, times, size * part * times)


def members(rest: str) -> tuple[int, ...]:
  """Reads devices of the first group, or pair, from instruction attributes."""
  text = rest.partition('replica_groups=')[2]
  if text.startswith('mesh['):
    return _along(text)
  if listed := re.match(r'\{\{([\d,]*)\}', text):
    return tuple(map(int, listed[1].split(',')))
  if iota := re.match(rf'\[\d+,(\d+)\]<={_IOTA}', text):
    return tuple(_iota(iota[2], iota[3])[: int(iota[1])].tolist())
  pairs = rest.partition('source_target_pairs=')[2].partition('}}')[0]
  ends = ((int(a), int(b)) for a, b in re.findall(r'\{(\d+),(\d+)', pairs))
  return next(((a, b) for a, b in ends if a != b), (0,))


def _along(text: str) -> tuple[int, ...]:
  """Lists devices along mesh['a'=8,'b'=2], device_ids=([2,8]T(1,0)) {'a'}."""
  sizes = {k: int(v) for k, v in re.findall(r"'(\w+)'=(\d+)", text)}
  ids = np.arange(math.prod(sizes.values()))
  if listed := re.search(rf'device_ids=\({_IOTA}\)', text):
    ids = _iota(listed[1], listed[2])
  axes = re.search(r"\{('[^}]*)\}", text)
  names = re.findall(r"'(\w+)'", axes[1]) if axes else []
  at = tuple(slice(None) if name in names else 0 for name in sizes)
  return tuple(ids.reshape(tuple(sizes.values()))[at].ravel().tolist())


def _iota(shape: str, order: str | None) -> np.ndarray:
  """Reads 0, 1, ... in an array of that shape, in another order of its axes."""
  ids = np.arange(math.prod(map(int, shape.split(','))))
  ids = ids.reshape([int(n) for n in shape.split(',')])
  return ids.transpose(
    [int(n) for n in (order or '').split(',') if n] or None
  ).ravel()


def _bits(kind: str) -> int:
  if kind in _BITS:
    return _BITS[kind]
  digits = re.match(r'[fsu](\d+)', kind)
  return int(digits[1]) if digits else 0
