import dataclasses
import random

import numpy as np
import pytest
from absl import logging

from agentrl.dataset import jit_tasks, tfds_store
from tests import errors


@dataclasses.dataclass(frozen=True)
class Example:
  task: dict
  actions: list
  key: str


def examples(n=5):
  rng = np.random.default_rng(0)
  return [
    Example(
      task={
        'board': rng.integers(-(2**15), 2**15, (3, 4), dtype=np.int16),
        'mask': rng.random((2, 2, 2)) < 0.5,
        'limit': np.int32(-(2**31) + i),
        'cost': rng.standard_normal(3).astype(np.float32),
      },
      actions=list(range(i)),
      key=f'tâche {i}',
    )
    for i in range(n)
  ]


def write(folder, some, config='a-train-5-0'):
  encode = jit_tasks.encode_arrays
  tfds_store.write(
    some, split='train', config=config, folder=folder, encode=encode
  )
  return tfds_store.read(split='train', config=config, folder=folder)


def test_examples_come_back_in_order(tmp_path):
  some = examples()
  back = write(tmp_path, some)
  assert [e['key'] for e in back] == [e.key for e in some]
  for i, (have, want) in enumerate(zip(back, some, strict=True)):
    assert have['n_actions'] == i
    assert have['actions'].dtype == np.int32
    assert have['actions'].tolist() == want.actions + [-1] * (4 - i)


NAMES = [d.name for d in jit_tasks.DTYPES]


@pytest.mark.parametrize('shape', [(), (1,), (5,), (2, 3), (0,)])
@pytest.mark.parametrize('dtype', NAMES)
def test_arrays_come_back_with_the_same_bits(tmp_path, dtype, shape):
  rng = np.random.default_rng(1)
  dtype = np.dtype(dtype)
  if dtype.kind == 'b':
    draw = [rng.random(shape) < 0.5 for _ in range(3)]
  elif dtype.kind == 'f':
    odd = [np.nan, -0.0, np.inf, -np.inf, np.finfo(dtype).smallest_subnormal]
    odd = np.array([*odd, 1 / 3, np.finfo(dtype).max], dtype)
    draw = [rng.choice(odd, shape) for _ in range(3)]
  else:
    ends = np.iinfo(dtype)
    draw = [rng.choice([ends.min, ends.max, 1], shape) for _ in range(3)]
  draw = [np.asarray(x, dtype) for x in draw]
  back = write(tmp_path, [Example({'x': x}, [], 'k') for x in draw])
  for have, want in zip(back, draw, strict=True):
    have = have['task']['x']
    assert (have.dtype, have.shape) == (want.dtype, want.shape)
    assert have.tobytes() == want.tobytes()


def test_the_second_of_two_writers_keeps_what_the_first_wrote(tmp_path):
  some = examples()
  write(tmp_path, some)
  place = tfds_store.location(tmp_path, 'a-train-5-0')
  before = {f: f.stat().st_ino for f in place.iterdir()}
  back = write(tmp_path, some)
  assert len(back) == 5
  assert {f: f.stat().st_ino for f in place.iterdir()} == before
  assert not list(tmp_path.glob('.building-*'))


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
  def full(*args):
    raise OSError('no space left')

  monkeypatch.setattr(tfds_store.os, 'rename', full)
  with pytest.raises(OSError):
    write(tmp_path, examples())
  assert not tfds_store.location(tmp_path, 'a-train-5-0').exists()
  assert not list(tmp_path.glob('.building-*'))


def test_python_random_and_logging_are_left_as_they_were(tmp_path):
  filters = [*logging.get_absl_logger().filters]
  random.seed(0)
  want = random.random()
  random.seed(0)
  write(tmp_path, examples(), 'x')
  assert tfds_store.location(tmp_path, 'x').is_dir()
  assert random.random() == want
  assert logging.get_absl_logger().filters == filters


@pytest.mark.parametrize(
  ('task', 'message'),
  [
    ({'x': np.zeros(3, np.float64)}, 'x float64'),
    ({'x': np.array('a')}, 'x U1'),
  ],
)
def test_a_dtype_that_would_not_come_back_is_refused(tmp_path, task, message):
  with errors.raises(ValueError, message):
    write(tmp_path, [Example(task, [0], 'k')])


@pytest.mark.parametrize(
  'other',
  [
    {'x': np.zeros(4, np.int32)},
    {'x': np.zeros(3, np.int16)},
    {'y': np.zeros(3, np.int32)},
  ],
)
def test_examples_that_differ_are_named(tmp_path, other):
  some = [
    Example({'x': np.zeros(3, np.int32)}, [0], 'a'),
    Example(other, [0], 'b'),
  ]
  with errors.raises(ValueError, '1'):
    write(tmp_path, some)


@pytest.mark.parametrize('what', ['*.array_record*', 'features.json'])
def test_a_cut_set_is_named(tmp_path, what):
  write(tmp_path, examples())
  place = tfds_store.location(tmp_path, 'a-train-5-0')
  (file,) = place.glob(what)
  file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
  with pytest.raises(ValueError) as info:
    tfds_store.read(split='train', config='a-train-5-0', folder=tmp_path)
  assert str(place) in str(info.value)
  assert '\n' not in str(info.value)


def test_a_changed_bit_is_never_read_as_data(tmp_path):
  some = examples(40)
  write(tmp_path, some)
  (file,) = tfds_store.location(tmp_path, 'a-train-5-0').glob('*.array_record*')
  data = file.read_bytes()
  rng = np.random.default_rng(0)
  used = np.flatnonzero(np.frombuffer(data, np.uint8))
  refused = 0
  for place in rng.choice(used, 50).tolist():
    torn = bytearray(data)
    torn[place] ^= 1 << int(rng.integers(8))
    file.write_bytes(torn)
    try:
      back = tfds_store.read(
        split='train', config='a-train-5-0', folder=tmp_path
      )
    except ValueError:
      refused += 1
      continue
    for have, want in zip(back, some, strict=True):
      assert have['key'] == want.key
      for name, x in want.task.items():
        np.testing.assert_array_equal(have['task'][name], x)
  assert refused > 40
