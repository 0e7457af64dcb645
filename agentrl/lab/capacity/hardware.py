"""Hardware tables: peak rates and memory of chips, from their makers."""

import re
from typing import NamedTuple

from agentrl.domain import suggest


class Chip(NamedTuple):
  """One device of a topology; rates are peaks, which no program reaches."""

  memory: float  # bytes
  flops: float  # per second, dense, bfloat16
  bandwidth: float  # of the memory, bytes per second
  links: float  # to other chips, both directions together, bytes per second
  source: str


class Topology(NamedTuple):
  """Chips of one kind."""

  name: str
  chip: Chip
  devices: int


_CLOUD = 'cloud.google.com/tpu/docs/'
_NVIDIA = 'nvidia.com/en-us/data-center/'
_GIB = 2.0**30

TPUS = {
  'v4': Chip(32 * _GIB, 275e12, 1228e9, 300e9, _CLOUD + 'v4'),
  'v5e': Chip(16e9, 197e12, 819e9, 400e9, _CLOUD + 'v5e'),
  'v5p': Chip(95 * _GIB, 459e12, 2765e9, 1200e9, _CLOUD + 'v5p'),
  'v6e': Chip(32e9, 918e12, 1640e9, 800e9, _CLOUD + 'v6e'),
}
# The SXM boards, with NVLink; L4 on PCIe. NVIDIA's tables give twice these
# FLOPs where a chip can skip zeros.
GPUS = {
  'A100': Chip(80e9, 312e12, 2039e9, 600e9, _NVIDIA + 'a100'),
  'H100': Chip(80e9, 989e12, 3350e9, 900e9, _NVIDIA + 'h100'),
  'H200': Chip(141e9, 989e12, 4800e9, 900e9, _NVIDIA + 'h200'),
  'L4': Chip(24e9, 121e12, 300e9, 64e9, _NVIDIA + 'l4'),
}
CHIPS = TPUS | GPUS
# Their names count cores, of which a chip has two and JAX shows one device.
_BY_CORES = ('v4', 'v5p')


def parse(name: str) -> Topology:
  """Parses 'v5e-16' (a cloud's slice), '8xH100' or 'h100-8' -> Topology.

  Raises: ValueError for a chip or a count that is not known.
  """
  slices = re.fullmatch(r'(?P<kind>\w+)-(?P<count>\d+)', name)
  boards = re.fullmatch(r'(?P<count>\d+)x(?P<kind>\w+)', name)
  kind, count, table = '', 0, GPUS if boards else CHIPS
  if match := slices or boards:
    written, number = match['kind'], int(match['count'])
    kind = {x.lower(): x for x in table}.get(written.lower(), written)
    count = number // (2 if kind in _BY_CORES else 1)
  if kind not in table or not count:
    raise ValueError(
      f'--topology={name!r} is unknown{suggest(kind, table)}; write KIND-COUNT'
      f' with one of {tuple(CHIPS)}, or COUNTxKIND with one of {tuple(GPUS)},'
      ' such as v5e-16 or 8xH100'
    )
  return Topology(name, table[kind], count)


def scaled(where: Topology, devices: int) -> Topology:
  """Scales a topology to a number of devices, named as `parse` reads it."""

  def count(match: re.Match) -> str:
    return str(int(match[0]) * devices // where.devices)

  name = re.sub(r'(?<=-)\d+$|^\d+(?=x)', count, where.name)
  return Topology(name, where.chip, devices)
