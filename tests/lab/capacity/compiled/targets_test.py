"""Names of slices."""

import pytest

from agentrl.lab.capacity import hardware
from agentrl.lab.capacity.compiled import targets
from tests import errors


@pytest.mark.parametrize(
  ('name', 'torus'),
  [('v5e-8', 'v5e:2x4'), ('v6e-64', 'v6e:8x8'), ('v5p-64', 'v5p:2x4x4')],
)
def test_torus(name, torus):
  assert targets.torus(hardware.parse(name)) == torus


@pytest.mark.parametrize(
  ('name', 'words'),
  [
    ('8xH100', 'v5e'),
    ('v5e-24', '24 4 8 16'),
  ],
)
def test_what_cannot_be_compiled_for_is_refused(name, words):
  with errors.raises(ValueError, words):
    targets.torus(hardware.parse(name))
