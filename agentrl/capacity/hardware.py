"""Machines that are not at hand: their chips, from the makers' own tables."""

import re
from typing import NamedTuple


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
# Their names count cores, of which a chip has two and JAX shows one device.
_BY_CORES = ('v4', 'v5p')


def parse(name: str) -> Topology:
  """'v5e-16' (as the cloud names slices) or '8xH100' -> Topology.

  Raises: ValueError for a chip or a count that is not known.
  """
  tpu = re.fullmatch(r'(v\w+)-(\d+)', name)
  gpu = re.fullmatch(r'(\d+)x(\w+)', name)
  kind, count = '', 0
  if tpu:
    kind, count = tpu[1], int(tpu[2]) // (2 if tpu[1] in _BY_CORES else 1)
  elif gpu:
    kind, count = gpu[2], int(gpu[1])
  table = TPUS if tpu else GPUS
  if kind not in table or not count:
    raise ValueError(
      f'--topology={name!r} is unknown; write KIND-COUNT with one of'
      f' {tuple(TPUS)} or COUNTxKIND with one of {tuple(GPUS)}, such as v5e-16'
      ' or 8xH100'
    )
  return Topology(name, table[kind], count)
