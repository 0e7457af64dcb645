"""The benchmark of a memory reads, writes and weighs what it says."""

import numpy as np

from agentrl.lab.bench import memory
from agentrl.lab.bench.sampling import TINY


def test_reads_and_a_write_are_of_a_full_bank():
  with memory.reads(TINY, '', entries=300, kept=500) as cases:
    for case in cases.values():
      case.call()
    (write,) = (x for name, x in cases.items() if name.endswith('write'))
    after = write.call()
  assert int(np.sum(after.written == 500)) == memory.NEW
  assert int(np.sum(after.length > 0)) == 500


def test_a_hundred_thousand_entries_take_a_tenth_of_what_they_may():
  """300 MB are allowed, docs/MEMORY.md says how many they take."""
  bank = memory.drawn(np.random.default_rng(0), memory.KEPT)
  assert memory.nbytes(bank) < 30e6
