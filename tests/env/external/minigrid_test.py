"""MiniGrid keeps what every host family promises."""

import pytest

from tests.env.promises import Case, Promises, check_refusal


class TestMiniGrid(Promises):
  cases = (
    Case('minigrid', 'minigrid', 'games'),
    Case(
      'minigrid', 'minigrid', 'games', {'id': 'BabyAI-BossLevel-v0'}, slow=True
    ),
    Case('minigrid', 'minigrid', 'games', {'id': 'MiniGrid-DoorKey-6x6-v0'}),
  )


@pytest.mark.parametrize(
  ('fields', 'words'),
  [({'id': 'CartPole-v1'}, 'id CartPole-v1')],
)
def test_bad_settings_are_one_sentence(fields, words):
  check_refusal('minigrid', fields, words)
