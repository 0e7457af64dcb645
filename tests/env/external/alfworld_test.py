"""ALFWorld without its games: what is found in a folder, and what is said."""

import json

import pytest

from agentrl.env.external import alfworld
from tests import errors


@pytest.fixture
def data(tmp_path):
  """A folder laid out as the data is; every third game cannot be solved."""
  for split in ('train', 'valid_seen', 'valid_unseen'):
    for i in range(6):
      home = tmp_path / split / f'pick-{i}' / 'trial'
      home.mkdir(parents=True)
      told = {'solvable': i % 3 > 0, 'walkthrough': ['look', f'go to {i}']}
      (home / 'game.tw-pddl').write_text(json.dumps(told))
  return str(tmp_path)


def test_tasks_are_the_datas_own_splits(data):
  made = alfworld.AlfWorld(data)
  train = list(made.tasks('train', 4, 0))
  test = list(made.tasks('test', 4, 0))
  assert len({t.key for t in (*train, *test)}) == 8
  assert {t.task['game'].split('/')[0] for t in train} == {'train'}
  assert {t.task['game'].split('/')[0] for t in test} == {'valid_unseen'}
  assert list(made.tasks('train', 4, 0)) == train
  for task in train:
    number = task.task['game'].split('/')[1][-1]
    assert int(number) % 3
    assert task.demonstration == ('look', f'go to {number}')
  with errors.raises(ValueError, '4 5'):
    list(made.tasks('train', 5, 0))


def test_a_folder_is_no_setting_of_the_tasks(data):
  assert alfworld.AlfWorld(data).name() == alfworld.AlfWorld().name()
  assert alfworld.AlfWorld(held_out='valid_seen').name() != (
    alfworld.AlfWorld().name()
  )


def test_without_the_games_one_is_told_how_to_get_them(monkeypatch, tmp_path):
  monkeypatch.delenv('ALFWORLD_DATA', raising=False)
  for made in (alfworld.AlfWorld(), alfworld.AlfWorld(str(tmp_path))):
    with pytest.raises(ValueError):
      made.env()
    with pytest.raises(ValueError):
      next(made.tasks('train', 1, 0))
  with errors.raises(ValueError, 'held_out dev'):
    alfworld.AlfWorld(held_out='dev')


def test_the_variable_names_the_folder_above(data, monkeypatch, tmp_path):
  above = tmp_path / 'all'
  above.mkdir()
  (above / 'json_2.1.1').symlink_to(data)
  monkeypatch.setenv('ALFWORLD_DATA', str(above))
  assert next(alfworld.AlfWorld().tasks('test', 1, 0)).demonstration
