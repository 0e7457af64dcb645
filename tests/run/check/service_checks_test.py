"""Services that nobody asks, or that cannot be asked as they stand."""

import pytest

from agentrl.configs import grpo
from agentrl.run.check import service_checks
from tests import errors


def config(**service):
  c = grpo.get_config('tiny,env=interview')
  c.service.user.update(dict(function='', role='policy') | service)
  return c


def test_one_that_the_environment_asks_is_there():
  c = config()
  service_checks.services(c, ('user',), 'thread')
  with errors.raises(ValueError, 'tutor'):
    service_checks.services(c, ('user', 'tutor'), 'thread')
  with errors.raises(ValueError, 'service.user'):
    service_checks.services(c, (), 'thread')
  with errors.raises(ValueError, 'process'):
    service_checks.services(c, ('user',), 'process')


@pytest.mark.parametrize(
  ('service', 'fix'),
  [
    ({'run': 'runs/a'}, '2'),
    ({'role': ''}, '0'),
    ({'role': 'critic'}, 'user.role critic'),
    ({'model': 'm'}, 'user.model m service.user.address'),
    ({'context': 8, 'message': 8}, 'user.context 8'),
  ],
)
def test_one_has_one_source_and_room_to_answer(service, fix):
  with errors.raises(ValueError, fix):
    service_checks.services(config(**service), ('user',), 'thread')
