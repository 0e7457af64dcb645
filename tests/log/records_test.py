"""Records that survive kills, cuts and damage."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.log import records

CONTENTS = [b'', b'{"a":1}', b'ATR1' * 9, b'xyz' * 50]


def fact(step: int, **values) -> np.void:
  x = np.zeros((), records.FACTS)
  for name, value in (dict(step=step) | values).items():
    x[name] = value
  return x[()]


def write(path, contents, keep=None):
  none = np.empty(0, records.HEAD)
  file = records.Appender(path, none if keep is None else keep)
  for i, content in enumerate(contents):
    file.write(fact(i, outcome=0.25, reward=-3, turns=7), content)
  file.close()


def read(path):
  return [records.body(path, head) for head in records.heads(path)]


@settings(deadline=None, max_examples=30)
@given(st.lists(st.binary(max_size=200), max_size=6))
def test_what_is_written_is_read(tmp_path_factory, contents):
  path = tmp_path_factory.mktemp('x') / '0.log'
  write(path, contents)
  with_index = records.heads(path)
  assert read(path) == contents
  records.index_of(path).unlink()
  assert read(path) == contents
  np.testing.assert_array_equal(records.heads(path), with_index)
  assert with_index['step'].tolist() == list(range(len(contents)))
  assert set(with_index['outcome'].tolist()) <= {0.25}


@pytest.mark.parametrize('index', ['none', 'stale', 'cut along'])
def test_cut_at_every_byte_of_the_last_two(tmp_path, index):
  """All records before the cut are read, and writing goes on behind them."""
  whole = tmp_path / 'whole.log'
  write(whole, CONTENTS)
  data, heads = whole.read_bytes(), records.heads(whole)
  starts = heads['at'].tolist()
  path = tmp_path / 'cut.log'
  for size in range(starts[-2], len(data)):
    path.write_bytes(data[:size])
    some = heads.tobytes()
    left = {'none': 0, 'stale': len(some), 'cut along': len(some) * 3 // 5}
    records.index_of(path).write_bytes(some[: left[index]])
    n = 2 if size < starts[-1] else 3
    assert read(path) == CONTENTS[:n]
    if size % 40:  # writing waits for the disk
      continue
    write(path, [b'after'], records.heads(path))
    assert read(path) == [*CONTENTS[:n], b'after']
    assert len(records.index_of(path).read_bytes()) == (n + 1) * heads.itemsize


def test_damage_costs_only_its_own_record(tmp_path):
  path = tmp_path / '0.log'
  write(path, CONTENTS)
  data, heads = path.read_bytes(), records.heads(path)
  records.index_of(path).unlink()
  last = int(heads['at'][3])
  for at in range(int(heads['at'][1]), last):
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    broken = 1 if at < heads['at'][2] else 2
    left = [x for i, x in enumerate(CONTENTS) if i != broken]
    assert read(path) == left


def test_damage_that_the_index_hides_is_told(tmp_path):
  path = tmp_path / '0.log'
  write(path, CONTENTS)
  data, heads = path.read_bytes(), records.heads(path)
  at = int(heads['at'][1]) + records.HEAD.itemsize
  path.write_bytes(data[:at] + b'?' + data[at + 1 :])
  with pytest.raises(ValueError, match=r'0\.log is damaged at byte'):
    records.body(path, records.heads(path)[1])
  assert records.body(path, records.heads(path)[3]) == CONTENTS[3]


def test_an_index_of_another_file_is_not_believed(tmp_path):
  one, other = tmp_path / '1.log', tmp_path / '2.log'
  write(one, CONTENTS)
  write(other, CONTENTS[::-1])
  records.index_of(one).write_bytes(records.index_of(other).read_bytes())
  assert read(one) == CONTENTS


def test_a_mark_that_lies_across_two_chunks(tmp_path, monkeypatch):
  path = tmp_path / '0.log'
  write(path, CONTENTS)
  data = path.read_bytes()
  records.index_of(path).unlink()
  path.write_bytes(b'?' + data[1:])
  for size in range(5, 80):
    monkeypatch.setattr(records, '_CHUNK', size)
    assert read(path) == CONTENTS[1:]


def test_one_of_many_is_read_alone(tmp_path, monkeypatch):
  """Opening with an index reads one record, not all."""
  path = tmp_path / '0.log'
  write(path, [b'%d' % i for i in range(300)])
  looked, whole = [], records._whole
  monkeypatch.setattr(
    records, '_whole', lambda f, at: looked.append(at) or whole(f, at)
  )
  heads = records.heads(path)
  assert records.body(path, heads[123]) == b'123'
  assert len(looked) == 1
  records.heads(path, heads)
  assert len(looked) == 2
