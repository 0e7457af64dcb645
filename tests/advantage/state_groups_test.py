"""Groups of equal states, and of equal histories."""

import jax
import numpy as np
import pytest

from agentrl import registry
from tests import errors
from tests.advantage import little_story

STATE = {'by': ('group', 'state'), 'unit': 'turn'}


STORY = little_story.equal_steps()


@pytest.fixture(scope='module', autouse=True)
def _float64():
  with jax.enable_x64(True):
    yield


def test_without_history_hgpo_is_gigpos_step_stream():
  step = [STORY.step[i] for i in (0, 1, 2, 3)]
  state = [STORY.state[i] for i in (0, 1, 2, 3)]
  flat = ('scale', STATE | {'ddof': 0})
  args = (step, step)
  got = little_story.turn_credit(
    *args, 'step_return', ('scale_history', {'depth': 0}), state=state
  )
  want = little_story.turn_credit(
    *args, 'step_return', ('center', STATE), flat, state=state
  )
  np.testing.assert_allclose(
    np.concatenate(got), np.concatenate(want), rtol=1e-9, atol=1e-12
  )


def test_hgpo_compares_equal_histories_apart():
  """Two came to state 1 from 0 and two from 2: level 1 is (2, 0), (5, 1)."""
  rewards = [[0.0, 2.0], [0.0, 0.0], [0.0, 5.0], [0.0, 1.0]]
  state = [[0, 1], [0, 1], [2, 1], [2, 1]]
  got = little_story.turn_credit(
    rewards,
    rewards,
    'turn_reward',
    ('center_history', {'depth': 1}),
    state=state,
  )
  second = [
    (1 * x + 2 * y) / 3 for x, y in ((0, 1), (-2, -1), (3, 2), (-1, -2))
  ]
  np.testing.assert_allclose([x[1] for x in got], second)
  np.testing.assert_array_equal([x[0] for x in got], 0)


def test_states_must_be_told(monkeypatch):
  blind = registry.get('rollout', 'jit')._replace(
    name='blind', gives=('column:group', 'output:logp')
  )
  monkeypatch.setitem(registry._PIECES, ('rollout', 'blind'), blind)
  w = registry.MethodSpec(
    rollout='blind',
    advantage=('step',),
    stream={'step': ('step_return', 'scale_history')},
  )
  with errors.raises(ValueError, 'scale_history column:state'):
    registry.check(w)
