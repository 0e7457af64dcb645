"""Guard study: what memory gives, its claims and its page."""

import functools
import json
import pathlib

import numpy as np

from agentrl.lab.papers.guard_game import study, visitor
from tests import errors

ROOT = pathlib.Path(__file__).parents[4]


@functools.cache
def report():
  return json.loads((ROOT / 'docs' / 'guard_game.json').read_text())


def test_memory_opens_guards_that_are_not_opened_without():
  for seed in range(3):
    own = study.live(seed, guards=40)
    none = study.live(seed, (), guards=40)
    assert sum(own.open[20:]) > sum(none.open[20:]) + 5
    assert own.open[0] == none.open[0]  # there is no memory yet


def test_memory_of_another_world_gives_nothing():
  gained = []
  for seed in range(4):
    other = study.live(99 + seed, guards=40)
    placebo = study.live(seed, guards=40, other=other)
    gained.append(sum(placebo.open) - sum(study.live(seed, (), guards=40).open))
  assert np.mean(gained) < 4


def test_a_guard_is_met_with_memory_of_earlier_ones_alone():
  seen = []

  def listens(messages, *, seed):
    seen.append(messages[-1].content)
    return visitor.speak(messages, seed=seed)

  life = study.live(0, guards=3, team=dict.fromkeys(visitor.ROLES, listens))
  assert json.loads(seen[0]).keys() == {'post', 'temper', 'step', 'cold'}
  assert len(life.entries) == 3
  again = study.live(0, guards=2)
  assert again.entries == life.entries[:2]


def test_a_life_that_was_cut_off_goes_on_the_same(tmp_path):
  path = tmp_path / 'life.json'
  study.live(1, guards=7, path=path)
  got = study.live(1, guards=15, path=path)
  assert got == study.live(1, guards=15)
  with errors.raises(ValueError, 'seed'):
    study.live(2, guards=15, path=path)


def test_a_report_is_whole(monkeypatch):
  monkeypatch.setattr(study, 'GUARDS', 40)
  small = study.measure(seeds=2)
  assert small == json.loads(json.dumps(small))
  assert tuple(small['cells']) == study.NAMES
  assert f'| {study.UNPLANNED} |' in study.table(small)


def test_the_page_has_the_table_of_the_report():
  page = (ROOT / 'docs' / 'results' / 'guard_game.md').read_text()
  assert study.table(report()) in page
  for cell in report()['cells'].values():
    assert len(cell['success']) == report()['seeds'] == study.SEEDS
    assert np.all(np.isfinite(cell['success']))
