"""Ray is asked for in one sentence where it is not installed."""

import pytest

from agentrl.rollout.workers.pool import env_workers
from agentrl.runtime import install
from tests import errors
from tests.rollout.workers import naughty, rooms


@pytest.mark.skipif(rooms.has_ray(), reason='Ray is installed')
def test_without_ray_says_what_to_install():
  with errors.raises(ValueError, install.command('ray')):
    env_workers(naughty.Family(), 1, worker='ray')
