"""What programs are compiled for without it: TPU slices and NVIDIA cards."""

import importlib.util
import pathlib
from typing import NamedTuple

from agentrl.domain import suggest
from agentrl.lab.capacity import hardware
from agentrl.lab.capacity.hardware import Topology
from agentrl.runtime import install

# Devices of a slice -> its torus, that compile without a TPU at hand.
_TWO = {4: '2x2', 8: '2x4', 16: '4x4', 32: '4x8', 64: '8x8', 256: '16x16'}
_THREE = {4: '2x2x1', 8: '2x2x2', 16: '2x2x4', 32: '2x4x4', 64: '4x4x4'}
TORI = {'v5e': _TWO, 'v6e': _TWO, 'v5p': _THREE}
# Cards -> a file beside this one with their properties, as the runtime reports
# them.
CARDS = {'H100': 'h100.txtpb'}
HOST = (1, 2, 4, 8)  # cards of one host
# Modules of the compiler, and the extra that brings them.
_COMPILERS = {
  'tpu': (('libtpu',), 'tpu-compile'),
  'cuda': (('jax_cuda13_plugin', 'nvidia.cudnn'), 'cuda-compile'),
}


class Target(NamedTuple):
  """Devices as their compiler names them."""

  platform: str  # 'tpu' or 'cuda'
  name: str  # 'v5e:2x4'; '1x1x8': processes and devices of each
  card: str = ''  # file with its properties

  @property
  def backend(self) -> str:
    """What jax.default_backend says there."""
    return 'gpu' if self.platform == 'cuda' else self.platform

  @property
  def options(self) -> dict[str, str]:
    """Arguments of topologies.get_topology_desc beside platform and name."""
    if not self.card:
      return {}
    text = pathlib.Path(__file__).with_name(self.card).read_text()
    return {'topology': self.name, 'target_config': text}


def target(where: Topology) -> Target:
  """Parses 'v5e-8' -> v5e:2x4, 'h100-8' or '8xH100' -> 1x1x8.

  Raises: ValueError for what no compiler here knows.
  """
  kind = next(x for x, chip in hardware.CHIPS.items() if chip is where.chip)
  if kind not in TORI and kind not in CARDS:
    raise ValueError(
      f'--topology={where.name!r} cannot be compiled for without it'
      f'{suggest(kind, TORI)}; choose one of {(*TORI, *CARDS)}'
    )
  counts = HOST if kind in CARDS else tuple(TORI[kind])
  if where.devices not in counts:
    raise ValueError(
      f'--topology={where.name!r} has {where.devices} devices, and {counts}'
      f' devices of {kind} can be compiled for'
    )
  if kind in CARDS:
    return Target('cuda', f'1x1x{where.devices}', CARDS[kind])
  return Target('tpu', f'{kind}:{TORI[kind][where.devices]}')


def check_available(platform: str) -> None:
  """Raises ValueError if the compiler of the platform is not installed."""
  modules, extra = _COMPILERS[platform]
  missing = [x for x in modules if not _found(x)]
  if missing:
    raise ValueError(
      f'the compiler for {platform} is not installed: {missing} are missing;'
      f' run {install.command(extra)}'
    )


def _found(module: str) -> bool:
  try:
    return importlib.util.find_spec(module) is not None
  except ModuleNotFoundError:  # the package that it is in
    return False
