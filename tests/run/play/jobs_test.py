"""Where a learner says that it listens."""

import stat

import pytest

from agentrl.run.play import jobs
from tests import errors


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


@pytest.mark.parametrize(
  ('name', 'host'),
  [
    ('127.0.0.1', '127.0.0.1'),
    ('::1', '::1'),
    ('localhost', '127.0.0.1'),
    ('node1', '10.0.0.1'),
    ('node1', 'fe80::1%eth0'),
  ],
)
def test_an_address_that_others_reach(name, host):
  jobs.check_reached(name, host)


@pytest.mark.parametrize('host', ['127.0.1.1', '::1'])
def test_a_name_that_is_a_loopback_here_is_refused(host):
  with errors.raises(ValueError, f'staleness.address node1 {host}'):
    jobs.check_reached('node1', host)
