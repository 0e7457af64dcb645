"""MiniGrid keeps what every host family promises."""

import pytest

from agentrl.env.external.minigrid import MiniGrid
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
