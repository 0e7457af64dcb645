"""What a config must say for the nulled reading to exist."""

import pytest

from agentrl import registry
from agentrl.configs import base, infopo
from agentrl.run import validate


def test_information_needs_the_reading():
  c = infopo.get_config('tiny')
  c.rollout.nulled = ''
  with pytest.raises(ValueError, match=r'information.*reading:nulled'):
    registry.check(base.wiring(c))


def test_one_context_must_not_hold_several_observations():
  c = infopo.get_config('tiny')
  c.rollout.window = 2
  with pytest.raises(ValueError, match=r'rollout\.window=2'):
    validate.config(c)
  c.rollout.history = 'full'
  c.micro = 8
  validate.config(c)
