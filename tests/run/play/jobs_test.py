"""Where a learner says that it listens."""

import stat

import pytest

from agentrl.run.play import jobs


def test_an_address_is_for_its_user_alone(tmp_path):
  place, address = tmp_path / 'in', (('10.0.0.1', 80), b'key')
  assert jobs.read_address(place) is None
  for _ in range(2):
    jobs.write_address(place, *address)
    assert jobs.read_address(place) == address
    file = place / jobs.ADDRESS
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(place.iterdir()) == [file]


@pytest.mark.parametrize(
  'text', ['', '{', '[]', '{"host": "h"}', '{"host":"h","port":1,"key":"x"}']
)
def test_a_damaged_address_is_none(tmp_path, text):
  (tmp_path / jobs.ADDRESS).write_text(text)
  assert jobs.read_address(tmp_path) is None
