"""The axis of seeds: devices, numbers dealt out, seeds that wait."""

import jax
import numpy as np

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


def test_seeds_share_devices_where_there_are_more():
  n = len(jax.devices())
  assert not seed_axis.over_devices(1).vmapped
  assert not seed_axis.over_devices(n).vmapped
  assert seed_axis.over_devices(2 * n).vmapped


def test_each_device_has_equally_many_seeds_and_no_more_are_used():
  have = len(jax.devices())
  for count in range(2, 2 * have + 2):
    used = seed_axis.over_devices(count).mesh.devices.size
    assert count % used == 0
    assert used <= have
    assert not any(count % n == 0 for n in range(used + 1, have + 1))
