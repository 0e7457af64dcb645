"""Invented names: as many as one asks for, and none twice."""

import numpy as np
import pytest

from agentrl.env.worlds.invented_names import invented_names
from tests import errors


@pytest.mark.parametrize('syllables', [1, 2, 3])
def test_names_differ(syllables):
  count = 35 ** min(syllables, 2)
  names = list(invented_names(np.random.default_rng(0), count, syllables))
  assert len(set(names)) == count
  assert all(len(name) == 2 * syllables and name.istitle() for name in names)
  again = invented_names(np.random.default_rng(0), count, syllables)
  assert list(again) == names


def test_more_names_than_there_are():
  with errors.raises(ValueError, 'count 36 35'):
    list(invented_names(np.random.default_rng(0), 36, 1))
