"""Stores: what is built is read, at random, and nothing is overwritten."""

import numpy as np
import pytest

from agentrl.dataset import trajectory_store
from agentrl.dataset.trajectory import HISTORIES, SOURCES, task_number
from tests import errors
from tests.dataset.stored_cases import same, story

STORIES = [story(seed) for seed in range(40)]


@pytest.fixture
def small_files(monkeypatch):
  monkeypatch.setattr(trajectory_store, 'SHARD', 16)
  monkeypatch.setattr(trajectory_store, 'CHUNK', 7)


def files(folder):
  return sorted(trajectory_store.location(folder, 'x').glob('*.array_record*'))


@pytest.mark.usefixtures('small_files')
def test_a_store_holds_what_it_was_given(tmp_path):
  given = iter(STORIES)
  assert trajectory_store.build(given, tmp_path, 'x') == 40
  assert len(files(tmp_path)) == 3
  store = trajectory_store.open_store(tmp_path, 'x')
  assert len(store) == 40
  assert all(map(same, store, STORIES))
  assert same(store[-1], STORIES[-1])
  chosen = [31, 2, -40, 2]
  got = store.take(np.array(chosen))
  assert all(map(same, got, [STORIES[i] for i in chosen]))
  assert store.take([]) == []
  assert [x.id for x in store[5:8]] == [x.id for x in STORIES[5:8]]
  with errors.raises(IndexError, '40'):
    store[40]


def test_heads_say_what_is_in_the_records(tmp_path):
  trajectory_store.build(STORIES, tmp_path, 'x')
  heads = trajectory_store.open_store(tmp_path, 'x').heads
  for head, x in zip(heads, STORIES, strict=True):
    assert head['outcome'] == np.float32(x.outcome)
    assert head['reward'] == np.float32(sum(t.reward for t in x.turns))
    assert head['turns'] == len(x.turns)
    assert head['tokens'] == sum(len(t.message) for t in x.turns)
    assert head['context'] == max([len(t.context) for t in x.turns], default=0)
    assert head['message'] == max([len(t.message) for t in x.turns], default=0)
    assert head['row'] == sum(len(t.context) for t in x.turns) + head['tokens']
    assert SOURCES[head['source']] == x.source
    assert HISTORIES[head['history']] == x.history
    assert (head['step'], head['group']) == (x.step, x.group)
    assert head['task'] == task_number(x.task)
    assert head['encoded'] == x.encoded


def test_a_summary_counts(tmp_path):
  some = [story(s, turns=2, source='policy') for s in range(4)]
  some = [x._replace(outcome=float(i == 0), task=1) for i, x in enumerate(some)]
  trajectory_store.build(some, tmp_path, 'x')
  text = trajectory_store.summary(trajectory_store.open_store(tmp_path, 'x'))
  tokens = sum(x.tokens for x in some)
  assert '4 trajectories (4 policy)' in text
  assert '\nhistory: 4 full\n' in text
  assert '\n1 tasks\n' in text
  assert f'\n{tokens} message tokens' in text
  assert '\n25.0% solved\n' in text


def test_nothing_is_overwritten(tmp_path):
  trajectory_store.build(STORIES[:2], tmp_path, 'x')
  with pytest.raises(ValueError):
    trajectory_store.build(STORIES, tmp_path, 'x')
  assert len(trajectory_store.open_store(tmp_path, 'x')) == 2
  trajectory_store.build(STORIES, tmp_path, 'y')


def test_what_fails_leaves_nothing(tmp_path):
  def broken():
    yield STORIES[0]
    raise RuntimeError('the source')

  with pytest.raises(RuntimeError):
    trajectory_store.build(broken(), tmp_path, 'x')
  with errors.raises(ValueError, 'x'):
    trajectory_store.build([], tmp_path, 'x')
  with pytest.raises(ValueError):
    trajectory_store.build(STORIES, tmp_path, '../x')
  left = [p for p in tmp_path.rglob('*') if p.is_file()]
  assert not left
  with errors.raises(ValueError, 'x'):
    trajectory_store.open_store(tmp_path, 'x')


@pytest.mark.usefixtures('small_files')
def test_a_damaged_file_costs_what_is_in_it(tmp_path):
  trajectory_store.build(STORIES, tmp_path, 'x')
  file = files(tmp_path)[1]
  data = bytearray(file.read_bytes())
  data[len(data) // 2 :] = bytes(len(data) - len(data) // 2)
  file.write_bytes(data)
  store = trajectory_store.open_store(tmp_path, 'x')
  assert same(store[0], STORIES[0])
  assert same(store[39], STORIES[39])
  with pytest.raises(ValueError):
    store.take(range(16, 32))


def test_missing_files_are_one_sentence(tmp_path):
  trajectory_store.build(STORIES, tmp_path, 'x')
  place = trajectory_store.location(tmp_path, 'x')
  heads = (place / 'heads.bin').read_bytes()
  (place / 'heads.bin').write_bytes(heads[: -trajectory_store.HEAD.itemsize])
  with errors.raises(ValueError, '39 40'):
    trajectory_store.open_store(tmp_path, 'x')
  (place / 'dataset_info.json').unlink()
  with pytest.raises(ValueError):
    trajectory_store.open_store(tmp_path, 'x')
