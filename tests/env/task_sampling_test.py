"""Names, splits and files of host families."""

import dataclasses
import functools
import pathlib
import subprocess
import sys

import pytest

from agentrl.env import base, splits, task_sampling
from agentrl.env.base import HostTask
from tests import errors

ROOT = pathlib.Path(__file__).parent.parent.parent


@dataclasses.dataclass(frozen=True)
class Settings:
  path: str = ''
  size: int = 1


TASKS = [
  HostTask({'i': i % 50}, (), task_sampling.key(i % 50)) for i in range(60)
]


def test_a_name_tells_settings_and_files_apart(tmp_path):
  file = tmp_path / 'a'
  file.write_text('x')
  family = Settings(str(file))
  name = task_sampling.name('kind', family, family.path)
  assert name == task_sampling.name('kind', Settings(str(file)), str(file))
  assert name.startswith('kind-')
  assert name != task_sampling.name('kind', Settings(str(file), 2), str(file))
  file.write_text('y')
  assert name != task_sampling.name('kind', family, family.path)
  with errors.raises(ValueError, 'gone'):
    task_sampling.name('kind', family, str(tmp_path / 'gone'))


def test_a_key_knows_content_and_no_order_of_names():
  assert task_sampling.key({'a': 1, 'b': 2}) == task_sampling.key(
    {'b': 2, 'a': 1}
  )
  assert task_sampling.key([1, 2]) != task_sampling.key([2, 1])


def chosen(tasks, split, count, seed):
  tasks = task_sampling.of_split(tasks, split)
  return list(task_sampling.chosen(tasks, split, count, seed, 'here'))


def test_chosen_are_all_of_a_split_once_in_the_order_of_a_seed():
  found = {}
  for split in splits.SPLITS:
    keys = {t.key for t in TASKS if splits.split_of(t.key) == split}
    found[split] = chosen(TASKS, split, len(keys), 3)
    assert {t.key for t in found[split]} == keys
    with errors.raises(ValueError, f'{len(keys)}'):
      chosen(TASKS, split, len(keys) + 1, 3)
  assert sum(map(len, found.values())) == 50
  again = chosen(TASKS[::-1], 'train', 5, 3)
  assert again == found['train'][:5]
  assert chosen(TASKS, 'train', 5, 4) != again


def test_of_tasks_with_one_key_the_first_counts():
  first = TASKS[0]
  twin = first._replace(task={'other': True})
  split = splits.split_of(first.key)
  assert first in task_sampling.of_split([first, twin], split)
  assert len(task_sampling.of_split([twin, first], split)) == 1
  assert not task_sampling.of_split([], split)


def test_sizes_are_those_of_both_splits_or_refused():
  of_split = functools.partial(task_sampling.of_split, TASKS)
  sizes = task_sampling.sizes(of_split, 'here', 'add some')
  assert sum(sizes.values()) == 50
  words = '0'
  with errors.raises(ValueError, words):
    task_sampling.sizes(lambda split: [], 'here', 'add some')


def test_lines_are_read_or_refused_with_their_place(tmp_path):
  file = tmp_path / 'a.jsonl'
  file.write_text('{"x": 1}\n\n{"x": 2}\n')
  assert task_sampling.lines(str(file), lambda line: line['x'], '{"x": 1}') == [
    1,
    2,
  ]
  file.write_text('{"x": "a\u2028b"}\r\n', encoding='utf-8')
  assert task_sampling.lines(str(file), lambda x: x['x'], '') == ['a\u2028b']
  for bad in ('{', '3', '{"y": 1}', '[]'):
    file.write_text('{"x": 1}\n' + bad)
    with errors.raises(ValueError, 'a.jsonl:2'):
      task_sampling.lines(str(file), lambda line: line['x'], '{"x": 1}')
  file.write_text('\n')
  with pytest.raises(ValueError):
    task_sampling.lines(str(file), lambda line: line['x'], '{"x": 1}')


def test_drawn_drops_draws_that_came_to_nothing():
  def draw(rng):
    i = int(rng.integers(100))
    return None if i % 2 else i

  tasks = list(
    task_sampling.drawn(draw, lambda i: ({'i': i}, ('a',)), 'test', 5, 0)
  )
  assert len({t.key for t in tasks}) == 5
  assert all(t.task['i'] % 2 == 0 and t.demonstration == ('a',) for t in tasks)
  assert {splits.split_of(t.key) for t in tasks} == {'test'}


def test_seeds_are_told_apart_and_have_a_seat_where_there_are_seats():
  for split in splits.SPLITS:
    tasks = list(task_sampling.seeds(split, 30, 0, seats=3))
    assert len({t.key for t in tasks}) == 30
    assert {splits.split_of(t.key) for t in tasks} == {split}
    assert {t.task['player'] for t in tasks} == {0, 1, 2}
    assert max(t.task['seed'] for t in tasks) < 2**31  # packages take an int32
    assert list(task_sampling.seeds(split, 9, 0, seats=3)) == tasks[:9]
    (alone,) = task_sampling.seeds(split, 1, 0)
    assert set(alone.task) == {'seed'}


def test_a_worker_that_imports_families_does_not_import_jax():
  ours = [x for x in base.FAMILIES.values() if x.startswith('agentrl.')]
  modules = ', '.join(sorted({path.split(':')[0] for path in ours}))
  code = f'import sys, {modules}; print("jax" in sys.modules)'
  done = subprocess.run(
    [sys.executable, '-c', code],
    cwd=ROOT,
    capture_output=True,
    text=True,
    check=True,
  )
  assert done.stdout == 'False\n'


@pytest.mark.parametrize(
  'data',
  [
    b'\xef\xbb\xbf{"x": 1}\n',
    b'{"x": 1}\r\n\r\n',
    b'\n\n{"x": 1}\n \n\n',
    b'\xef\xbb\xbf\r\n{"x": 1}',
  ],
)
def test_marks_line_ends_and_empty_lines_do_not_matter(tmp_path, data):
  (tmp_path / 'a').write_bytes(data)
  assert task_sampling.lines(str(tmp_path / 'a'), dict, '') == [{'x': 1}]


def test_whatever_parse_raises_names_the_line(tmp_path):
  (tmp_path / 'a').write_text('{"x": 1}\n{"x": 1' + '0' * 400 + '}\n')
  with errors.raises(ValueError, 'a:2'):
    task_sampling.lines(str(tmp_path / 'a'), lambda row: float(row['x']), '')
  (tmp_path / 'a').write_bytes(b'{"x": 1}\n{"x": "\xff"}\n')
  with errors.raises(ValueError, '2 UTF-8'):
    task_sampling.lines(str(tmp_path / 'a'), dict, '')
