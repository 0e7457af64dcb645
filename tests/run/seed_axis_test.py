"""The axis of seeds: devices, numbers dealt out, seeds that wait."""

import jax
import numpy as np
import pytest

from agentrl.run import seed_axis


def test_numbers_are_dealt_out():
  axis = seed_axis.over_devices(2)
  found = axis.gather([{'a': 1.0, 'b': 2}, {'a': 3.0}])
  found |= {'c': np.array([5.0, 6.0]), 'time': 7.0}
  assert seed_axis.of_seed(found, 0) == {
    'a': 1.0,
    'b': 2,
    'c': 5.0,
    'time': 7.0,
  }
  assert seed_axis.of_seed(found, 1) == {'a': 3.0, 'c': 6.0, 'time': 7.0}


def test_seeds_of_a_deep_model_have_a_device_each():
  n = len(jax.devices())
  assert seed_axis.over_devices(n, layers=9).count == n
  with pytest.raises(ValueError, match=r'layers=9: .*--together=1'):
    seed_axis.over_devices(2 * n, layers=9)
