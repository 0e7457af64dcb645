"""Names of TPU slices, as the cloud and as the compiler write them."""

from agentrl.domain import suggest
from agentrl.lab.capacity.hardware import Topology

# Devices of a slice -> its torus, that compile without a TPU at hand.
_TWO = {4: '2x2', 8: '2x4', 16: '4x4', 32: '4x8', 64: '8x8', 256: '16x16'}
_THREE = {4: '2x2x1', 8: '2x2x2', 16: '2x2x4', 32: '2x4x4', 64: '4x4x4'}
TORI = {'v5e': _TWO, 'v6e': _TWO, 'v5p': _THREE}


def torus(where: Topology) -> str:
  """'v5e-8' as the compiler names it: 'v5e:2x4'.

  Raises: ValueError for a slice that it does not know.
  """
  kind = where.name.partition('-')[0].lower()
  if kind not in TORI:
    raise ValueError(
      f'--topology={where.name!r} cannot be compiled for without it'
      f'{suggest(kind, TORI)}; choose one of {tuple(TORI)}'
    )
  if where.devices not in TORI[kind]:
    raise ValueError(
      f'--topology={where.name!r} has {where.devices} devices, and slices of'
      f' {tuple(TORI[kind])} devices of {kind} can be compiled for'
    )
  return f'{kind}:{TORI[kind][where.devices]}'
