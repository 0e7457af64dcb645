"""MiniGrid keeps what every host family promises."""

import types

import pytest

from agentrl.env.base import Step
from agentrl.env.external.minigrid import ACTIONS, GridEnv, MiniGrid
from agentrl.runtime import install
from tests import errors
from tests.env.promises import Case, Promises


class TestMiniGrid(Promises):
  cases = (
    Case('minigrid', 'minigrid', 'games'),
    Case(
      'minigrid', 'minigrid', 'games', {'id': 'BabyAI-BossLevel-v0'}, slow=True
    ),
    Case('minigrid', 'minigrid', 'games', {'id': 'MiniGrid-DoorKey-6x6-v0'}),
  )
  refused = (({'id': 'CartPole-v1'}, 'id CartPole-v1'),)


def test_an_environment_that_the_package_lacks_is_refused():
  pytest.importorskip('minigrid', reason=install.command('games'))
  with errors.raises(ValueError, 'MiniGrid-Moon-v0'):
    MiniGrid(id='MiniGrid-Moon-v0').env()


@pytest.mark.parametrize(('reward', 'score'), [(0.0, 0.0), (0.3, 1.0)])
def test_a_room_is_solved_where_it_pays(reward, score):
  """A stand-in for the package's room, which ends at the first action."""
  world = types.SimpleNamespace(step=lambda a: ({}, reward, False, True, {}))
  step = GridEnv(world).step(f' {ACTIONS[0]}\n')
  assert step == Step('', reward, done=True, score=score)
