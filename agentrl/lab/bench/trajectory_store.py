"""Cost of a trajectory store: memory while it is built and read, and reads.

  python -m agentrl.lab.bench.trajectory_store [COUNT [FOLDER]]

Random trajectories of four turns with sixty tokens each. Memory is that of the
process at the tenth part and at the end; it must not grow with the count.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from agentrl.dataset import trajectory_store
from agentrl.dataset.trajectory import StoredTrajectory, make_turn
from agentrl.types import Status

TURNS, CONTEXT, MESSAGE = 4, 30, 30  # tokens
READS = 10_000  # trajectories read at random
_PAGE = 4096  # bytes


def resident() -> float:
  """Memory that the process holds now, MiB."""
  pages = Path('/proc/self/statm').read_text().split()[1]
  return int(pages) * _PAGE / 2**20


def synthetic(
  count: int, marks: dict[str, float]
) -> Iterator[StoredTrajectory]:
  """Random trajectories; `marks` gets the memory at a tenth and at the end."""
  r = np.random.default_rng(0)
  for i in range(count):
    if i == count // 10:
      marks['build_tenth_mib'] = resident()
    turns = [
      make_turn(
        r.integers(0, 50_000, CONTEXT),
        r.integers(0, 50_000, MESSAGE),
        logp=-r.random(MESSAGE),
        version=i // 64,
        entropy=r.random(),
        terms={'env': 0.0, 'tokens': MESSAGE, 'progress': r.random()},
      )
      for _ in range(TURNS)
    ]
    solved = i % 2
    yield StoredTrajectory(
      turns=tuple(turns),
      task=i // 8,
      group=i // 8 % 8,
      outcome=float(solved),
      status=Status.SOLVED if solved else Status.FAILED,
      source='policy',
      step=i // 64,
      history='full',
      encoded=False,
    )
  marks['build_end_mib'] = resident()


def measure(count: int, folder: str, reads: int = READS) -> dict[str, float]:
  """Seconds to build, MiB at a tenth and at the end, ms of a random read."""
  out: dict[str, float] = {}
  start = time.perf_counter()
  trajectory_store.build(synthetic(count, out), folder, 'bench')
  out['build_s'] = time.perf_counter() - start
  start = time.perf_counter()
  store = trajectory_store.open_store(folder, 'bench')
  out['open_s'] = time.perf_counter() - start
  places = np.random.default_rng(1).integers(0, count, reads)
  times = []
  for n, i in enumerate(places.tolist()):
    start = time.perf_counter()
    store[i]
    times.append(time.perf_counter() - start)
    if n == reads // 10:
      out['read_tenth_mib'] = resident()
  out['read_end_mib'] = resident()
  out['read_median_ms'] = 1e3 * float(np.median(times))
  out['read_p99_ms'] = 1e3 * float(np.quantile(times, 0.99))
  place = trajectory_store.location(folder, 'bench')
  out['disk_mib'] = sum(x.stat().st_size for x in place.iterdir()) / 2**20
  return out


def main() -> None:
  count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
  with tempfile.TemporaryDirectory() as folder:
    numbers = measure(count, sys.argv[2] if len(sys.argv) > 2 else folder)
  print(f'{count} trajectories')
  for name, x in numbers.items():
    print(f'{name:<16}{x:.3g}' if x < 10 else f'{name:<16}{x:.0f}')


if __name__ == '__main__':
  main()
