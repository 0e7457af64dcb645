"""Names of slices and of cards."""

import pytest

from agentrl.lab.capacity import hardware
from agentrl.lab.capacity.compiled import targets
from tests import errors


@pytest.mark.parametrize(
  ('name', 'platform', 'compiled'),
  [
    ('v5e-8', 'tpu', 'v5e:2x4'),
    ('v6e-64', 'tpu', 'v6e:8x8'),
    ('v5p-64', 'tpu', 'v5p:2x4x4'),
    ('h100-1', 'cuda', '1x1x1'),
    ('8xH100', 'cuda', '1x1x8'),
  ],
)
def test_target(name, platform, compiled):
  target = targets.target(hardware.parse(name))
  assert (target.platform, target.name) == (platform, compiled)


def test_a_card_is_described_and_a_slice_is_not():
  card = targets.target(hardware.parse('h100-8'))
  assert card.backend == 'gpu'
  assert card.options['topology'] == '1x1x8'
  assert 'cuda_compute_capability { major: 9 }' in card.options['target_config']
  chip = targets.target(hardware.parse('v5e-8'))
  assert (chip.backend, chip.options) == ('tpu', {})


@pytest.mark.parametrize(
  ('name', 'words'),
  [
    ('8xA100', '8xA100 H100 v5e'),
    ('v5e-24', '24 4 8 16'),
    ('h100-16', '16 1 2 4 8'),
  ],
)
def test_what_cannot_be_compiled_for_is_refused(name, words):
  with errors.raises(ValueError, words):
    targets.target(hardware.parse(name))


@pytest.mark.parametrize(
  ('platform', 'words'),
  [('tpu', 'libtpu tpu-compile'), ('cuda', 'nvidia.cudnn cuda-compile')],
)
def test_a_compiler_that_is_missing_is_named(monkeypatch, platform, words):
  monkeypatch.setattr(targets, '_found', lambda module: False)
  with errors.raises(ValueError, words):
    targets.check_available(platform)


def test_a_module_is_found_in_a_package_or_not():
  assert targets._found('json.decoder')
  assert not targets._found('no_such_package.module')
