"""Sizes of benchmarks are what their flags make."""

import pytest

from agentrl.lab.bench import sizes


@pytest.mark.parametrize(
  'size', [sizes.AdvantageBenchSize(), sizes.SlowEnvBenchSize()]
)
def test_every_size_is_positive(size):
  assert all(value > 0 for value in size)
