"""Topologies by name: cores are not devices, mistakes are named."""

import pytest

from agentrl.lab.capacity import hardware
from tests import errors


@pytest.mark.parametrize(
  ('name', 'kind', 'devices'),
  [
    ('v5e-16', 'v5e', 16),
    ('v4-16', 'v4', 8),  # counts cores, two of a chip
    ('v5p-8', 'v5p', 4),
    ('8xH100', 'H100', 8),
    ('8xh100', 'H100', 8),
    ('h100-8', 'H100', 8),
    ('1xL4', 'L4', 1),
  ],
)
def test_a_name_says_chip_and_devices(name, kind, devices):
  made = hardware.parse(name)
  assert made.chip == (hardware.TPUS | hardware.GPUS)[kind]
  assert (made.name, made.devices) == (name, devices)


@pytest.mark.parametrize(
  'name', ['v5e', 'H100', 'v9-8', '8xV100', '8xv5e', '0xH100', 'v4-1', '']
)
def test_what_is_unknown_is_named_with_the_choices(name):
  with errors.raises(ValueError, f'{name} KIND-COUNT'):
    hardware.parse(name)


def test_rates_are_of_one_order():
  """A slip of a power of ten would show."""
  for chip in (hardware.TPUS | hardware.GPUS).values():
    assert 1e10 < chip.memory < 1e12
    assert 1e14 < chip.flops < 1e16
    assert 1e11 < chip.bandwidth < 1e13
    assert chip.links < chip.bandwidth


@pytest.mark.parametrize(
  'name', ['v5e-16', 'v5p-8', '8xH100', 'h100-4', 'v4-2']
)
@pytest.mark.parametrize('devices', [1, 2, 64])
def test_a_topology_of_another_size(name, devices):
  one = hardware.parse(name)
  other = hardware.scaled(one, devices)
  assert hardware.parse(other.name) == other
  assert (other.chip, other.devices) == (one.chip, devices)
