"""Tasks of host environments come back as they were made."""

import dataclasses

from agentrl.dataset import host_tasks, tfds_store
from tests import errors


@dataclasses.dataclass(frozen=True)
class Task:
  task: dict
  demonstration: tuple
  key: str


TASKS = [
  Task({'goal': 'größer', 'n': [1, None, 2.5]}, ('a', '\ud83d "b"\n'), 'one'),
  Task({'deep': {'x': True}}, (), 'zwö'),
  Task({}, ('',), '3'),
]


class Source:
  def __init__(self, tasks=TASKS):
    self._tasks = tasks

  def name(self):
    return 'fake-0a'

  def tasks(self, split, count, seed):
    yield from self._tasks


class Idle(Source):
  def tasks(self, split, count, seed):
    raise AssertionError('asked for what is there')


def test_tasks_come_back_and_are_found_again(tmp_path):
  made = host_tasks.load(Source(), 'train', 3, 0, folder=tmp_path)
  assert made.tasks == [one.task for one in TASKS]
  assert made.demonstration == [list(one.demonstration) for one in TASKS]
  assert made.keys == [one.key for one in TASKS]
  assert host_tasks.load(Idle(), 'train', 3, 0, folder=tmp_path) == made
  assert len(host_tasks.load(Source(), 'test', 2, 0, folder=tmp_path)) == 2


def test_too_few_tasks_are_refused(tmp_path):
  with errors.raises(ValueError, '3 4'):
    host_tasks.load(Source(), 'train', 4, 0, folder=tmp_path)
  with errors.raises(ValueError, '0'):
    host_tasks.load(Source(), 'train', 0, 0, folder=tmp_path)


def test_a_damaged_set_names_its_place(tmp_path):
  host_tasks.load(Source(), 'train', 3, 0, folder=tmp_path)
  place = tfds_store.location(tmp_path, 'fake-0a-train-3-0')
  (file,) = place.glob('*.array_record*')
  file.write_bytes(file.read_bytes()[:-40])
  with errors.raises(ValueError, 'fake-0a-train-3-0'):
    host_tasks.load(Source(), 'train', 3, 0, folder=tmp_path)
