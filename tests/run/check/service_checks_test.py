"""Services that nobody asks, or that cannot be asked as they stand."""

import pytest

from agentrl.configs import grpo
from agentrl.run.check import service_checks


def config(**service):
  c = grpo.get_config('tiny,env=interview')
  c.service.user.update(dict(function='', role='policy') | service)
  return c


def test_one_that_the_environment_asks_is_there():
  c = config()
  service_checks.services(c, ('user',), 'thread')
  with pytest.raises(ValueError, match=r"asks the service 'tutor'.*base\.serv"):
    service_checks.services(c, ('user', 'tutor'), 'thread')
  with pytest.raises(ValueError, match=r'service\.user is never called'):
    service_checks.services(c, (), 'thread')
  with pytest.raises(ValueError, match="worker 'process' and call services"):
    service_checks.services(c, ('user',), 'process')


@pytest.mark.parametrize(
  ('service', 'fix'),
  [
    ({'run': 'runs/a'}, '2 sources, .*set exactly one of'),
    ({'role': ''}, '0 sources, .*set exactly one of'),
    ({'role': 'critic'}, r"user\.role='critic' is no language model of this"),
    ({'model': 'm'}, r"user\.model='m', .*set service\.user\.address"),
    ({'context': 8, 'message': 8}, r'user\.context=8 holds no question'),
  ],
)
def test_one_has_one_source_and_room_to_answer(service, fix):
  with pytest.raises(ValueError, match=fix):
    service_checks.services(config(**service), ('user',), 'thread')
