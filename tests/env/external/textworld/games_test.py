"""Games that TextWorld builds: a torn file is built again."""

import importlib.util
import itertools

import pytest

from agentrl.env import base
from agentrl.runtime import install
from tests.env.promises import play


@pytest.mark.nightly
@pytest.mark.skipif(
  importlib.util.find_spec('textworld') is None,
  reason=f'needs textworld: {install.command("games")}',
)
def test_a_torn_game_is_built_again(tmp_path):
  made = base.find('textworld_coin')(brief=False, folder=str(tmp_path))
  (task,) = itertools.islice(made.tasks('test', 1, 3), 1)
  once = play(made.env(), task.task, task.demonstration)
  (built,) = tmp_path.iterdir()
  whole = (built / 'game.z8').read_bytes()
  (built / 'game.z8').write_bytes(whole[: len(whole) // 2])
  assert play(made.env(), task.task, task.demonstration) == once
  assert (built / 'game.z8').read_bytes()[:1000] == whole[:1000]
  assert len(list(tmp_path.iterdir())) == 1
