"""Sizes of benchmarks, which are flags: light, for a quick --help."""

from typing import NamedTuple


class AdvantageBenchSize(NamedTuple):
  """Sizes of the batch, and the repeats of each figure."""

  trajectories: int = 512
  turns: int = 30
  tokens: int = 8192
  repeats: int = 5


class SlowEnvBenchSize(NamedTuple):
  """Sizes of the rollouts, and how long calls of the environment take."""

  count: int = 64  # type: ignore[assignment]  # trajectories
  slots: int = 16  # of the engine
  sessions: int = 32  # under way
  turns: int = 4  # of each
  median: float = 0.3  # seconds of a tool call
  long: float = 5.0  # seconds that 2% of calls exceed
  repeats: int = 3


class EnvWorkersBenchSize(NamedTuple):
  """Workers in each place, and what is asked of them."""

  count: int = 8  # type: ignore[assignment]  # workers
  turns: int = 200  # of each
  characters: int = 200  # of a message and its reply
  places: tuple[str, ...] = ('thread', 'process', 'dask', 'ray')
  repeats: int = 3


class StalenessBenchSize(NamedTuple):
  """Sizes of the runs, and how old their batches may be."""

  batch: int = 64  # episodes
  width: int = 256  # of the model
  warm: int = 10  # steps that are not timed
  steps: int = 20  # steps that are
  bounds: tuple[int, ...] = (0, 1, 4)
  repeats: int = 3


# Of compiled programs: none; empty at the start of a sweep; left by one before.
CACHES = ['none', 'cold', 'warm']


class Sweep(NamedTuple):
  """The sweep that is timed."""

  config: str = 'configs/grpo.py:tiny'
  grid: tuple[str, ...] = ()  # PATH=VALUE, as for sweep
  seeds: int = 5
  jobs: int = 2  # processes at a time
  repeats: int = 3  # of each
