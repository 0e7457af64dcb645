"""Records hold every bit of a trajectory."""

import numpy as np
import pytest
from hypothesis import given, settings

from agentrl.dataset import trajectory_record
from tests.dataset.stored_cases import same, stories, story


def read_back(x):
  """Encoded and decoded, with texts as TFDS reads them."""
  record = trajectory_record.encode(x)
  return {
    name: value.encode() if isinstance(value, str) else value
    for name, value in record.items()
  }


@settings(deadline=None, max_examples=60)
@given(stories())
def test_a_record_is_the_trajectory(x):
  assert same(trajectory_record.decode(read_back(x)), x)


def test_a_record_has_the_features_it_declares():
  record = trajectory_record.encode(story(1))
  assert set(record) == set(trajectory_record.features())


def test_a_changed_record_is_refused():
  record = read_back(story(2, turns=3))
  record['logp'] = np.nextafter(record['logp'], np.float32(-9))
  with pytest.raises(ValueError):
    trajectory_record.decode(record)
  with pytest.raises(ValueError):
    trajectory_record.decode(record | {'id': None})
