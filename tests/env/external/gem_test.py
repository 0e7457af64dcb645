"""GEM's games that need no network: equal seeds are equal episodes.

AGENTRL_GEM_PYTHON is the interpreter of a virtual environment with gem-llm.
"""

import json
import os
import pathlib
import subprocess

import pytest

from agentrl.env.external.gymnasium_text import GymnasiumText
from agentrl.rollout.workers import pool
from tests.env.external import gem_episodes

PYTHON = os.environ.get('AGENTRL_GEM_PYTHON', '')
LEVELS = ('easy', 'hard', 'random')
IDS = (
  *(f'game:GuessTheNumber-v0-{x}' for x in LEVELS),
  *(f'game:Mastermind-v0-{x}' for x in LEVELS),
  *(f'game:Minesweeper-v0-{x}' for x in LEVELS),
  *(f'game:FifteenPuzzle-v0-{x}' for x in LEVELS[:2]),
  *(f'game:Sudoku-v0-{x}' for x in LEVELS),
  *(f'game:TowerofHanoi-v0-{x}' for x in LEVELS),
  *(f'game:Game2048-v0-{x}' for x in (*LEVELS, 'extreme-hard')),
  *(f'game:Sokoban-v0-{x}' for x in LEVELS),
)
pytestmark = [
  pytest.mark.nightly,
  pytest.mark.skipif(not PYTHON, reason='set AGENTRL_GEM_PYTHON'),
]


def test_24_games_repeat():
  script = pathlib.Path(gem_episodes.__file__)
  done = subprocess.run(
    [PYTHON, str(script), *IDS], capture_output=True, text=True, check=True
  )
  rows = [json.loads(x) for x in done.stdout.splitlines() if x[:1] == '{']
  assert [x['id'] for x in rows] == list(IDS)
  assert len(rows) == 24
  assert all(x['episodes'] == 20 for x in rows)
  assert {x['id'] for x in rows if x['differ']} == set()
  assert all(x['distinct'] > 9 for x in rows)


def test_two_processes_play_the_same_game():
  family = GymnasiumText(
    make='gem:make', id='game:Sudoku-v0-easy', python=PYTHON
  )
  family.check()
  with pool.env_workers(family, 2) as workers:
    starts = [w.reset({'seed': 4}, 0) for w in workers]
    assert len({x.result(600) for x in starts}) == 1
    replies = [w.step('\\boxed{1 1 5}') for w in workers]
    assert len({x.result(60)._replace(info=()) for x in replies}) == 1
