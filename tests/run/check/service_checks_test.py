"""Services that nobody asks, or that cannot be asked as they stand."""

import pytest

from agentrl.configs import base, grpo
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


URL = 'https://x/v1'


@pytest.mark.parametrize(
  ('service', 'fix'),
  [
    ({'role': ''}, 'service.user 0'),
    ({'run': 'runs/a'}, 'service.user 2'),
    ({'address': URL}, 'service.user 2'),
    ({'role': '', 'function': 'no:where'}, 'service.user.function no:where'),
    ({'role': 'teacher'}, 'user.role teacher policy'),
    ({'role': 'critic'}, 'user.role critic policy'),  # which has a value head
    ({'model': 'm'}, 'user.model m service.user.address'),
    ({'context': 8, 'message': 8}, 'user.context 8'),
    ({'role': '', 'address': 'x'}, 'service.user address x'),
    ({'role': '', 'address': URL}, 'service.user model'),
    (
      {'role': '', 'address': URL, 'model': 'm', 'key_env': 'NOT_SET_HERE'},
      'service.user key_env NOT_SET_HERE',
    ),
  ],
)
def test_one_has_one_source_and_room_to_answer(service, fix):
  c = config(**service)
  base.role(c, 'critic', heads=1)
  with errors.raises(ValueError, fix):
    service_checks.services(c, ('user',), 'thread')
