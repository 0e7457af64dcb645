"""docs/ENVIRONMENTS_OF_OTHERS.md is run as it stands."""

import re
import sys
import types

from agentrl.env import base
from agentrl.env.external.gymnasium_text import GymnasiumText
from tests.docs.pages import Page

PAGE = Page('docs/ENVIRONMENTS_OF_OTHERS.md')


def module(name: str, marker: str, monkeypatch) -> None:
  """Makes the one example with these words a module."""
  (code,) = (x for x in PAGE.code if marker in x)
  made = types.ModuleType(name)
  exec(code, vars(made))
  monkeypatch.setitem(sys.modules, name, made)


def test_doors(monkeypatch):
  module('doors', 'class Doors', monkeypatch)
  env = GymnasiumText(make='doors:make', settings='count=3').env()
  assert env.reset({'seed': 5}, 0) == 'There are 3 doors. Which one?'
  steps = [env.step(text) for text in '012']
  assert [x.done for x in steps].count(True) == 1
  assert sum(x.score for x in steps) == 1.0


def test_boards(monkeypatch):
  module('boards', 'def show', monkeypatch)
  board = [[(0, 0)] * 3 for _ in range(3)]
  board[0][1], board[2][2] = (1, 0), (0, 1)
  seen = {'observation': board, 'action_mask': [1, 0, 1, 0, 0, 0, 0, 0, 0]}
  text = sys.modules['boards'].show(seen, 'player_1')
  assert text.splitlines() == ['.X.', '...', '..O', 'Free: 0 2']


def test_settings_it_sets_are_there():
  trained = [x for x in PAGE.blocks('bash') if 'experiments.train' in x]
  for block in trained:
    (name,) = re.findall(r':env=(\w+)', block)
    fields = base.settings(base.find(name))
    assert set(re.findall(r'--config\.env\.(\w+)', block)) <= set(fields)
  assert len(trained) >= len(re.findall(r'^## ', PAGE.text, re.M))


def test_every_example_is_run():
  markers = ('class Doors', 'def show')
  assert len(PAGE.code) == len(markers)
