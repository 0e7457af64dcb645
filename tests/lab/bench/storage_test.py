"""Benchmarks of storage measure what is there."""

import numpy as np

from agentrl.lab.bench import storage
from agentrl.lab.bench.sampling import TINY


def test_a_state_is_saved_while_it_is_updated():
  with storage.checkpoints(TINY, '') as cases:
    calls = {name: case.call for name, case in cases.items()}
    before = np.asarray(calls['checkpoint_update']())
    for _ in range(2):  # a save waits for the one before
      after = np.asarray(calls['checkpoint_blocked']())
    calls['checkpoint_sealed']()
    np.testing.assert_array_equal(after, before)  # negated twice
    (work,) = cases['checkpoint_blocked'].parts
    assert work.bytes == 2 * before.nbytes


def test_a_store_is_built_and_read():
  with storage.trajectories(TINY, '') as cases:
    cases['store_build'].call()
    read = cases['store_read'].call()
    assert len(read) == cases['store_read'].makes['trajectories']
    assert {x.tokens for x in read} == {storage.TURNS * storage.TOKENS}
