"""Binary logs of older runs: what is whole in them is read."""

import zlib

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.log import records
from tests import errors

CONTENTS = [b'', b'{"a":1}', b'ATR1' * 9, b'xyz' * 50]


def write(path, contents):
  """As runs wrote them."""
  data = b''
  for i, content in enumerate(contents):
    packed, head = zlib.compress(content, 3), np.zeros((), records.HEAD)
    head['mark'], head['at'], head['size'] = b'ATR1', len(data), len(packed)
    head['crc'] = zlib.crc32(packed)
    head['step'], head['outcome'], head['reward'], head['turns'] = (
      i,
      0.25,
      -3,
      7,
    )
    head['check'] = zlib.crc32(head.tobytes()[:-4])
    data += head.tobytes() + packed
  path.write_bytes(data)


def read(path):
  return [records.body(path, head) for head in records.read_heads(path)]


@settings(deadline=None, max_examples=30)
@given(st.lists(st.binary(max_size=200), max_size=6))
def test_what_was_written_is_read(tmp_path_factory, contents):
  path = tmp_path_factory.mktemp('x') / '0.log'
  write(path, contents)
  heads = records.read_heads(path)
  assert read(path) == contents
  assert heads['step'].tolist() == list(range(len(contents)))
  assert set(heads['outcome'].tolist()) <= {0.25}


def test_cut_at_every_byte_of_the_last_two(tmp_path):
  whole, path = tmp_path / 'whole.log', tmp_path / 'cut.log'
  write(whole, CONTENTS)
  data, heads = whole.read_bytes(), records.read_heads(whole)
  starts = heads['at'].tolist()
  for size in range(starts[-2], len(data)):
    path.write_bytes(data[:size])
    n = 2 if size < starts[-1] else 3
    assert read(path) == CONTENTS[:n]


def test_damage_costs_only_its_own_record(tmp_path):
  path = tmp_path / '0.log'
  write(path, CONTENTS)
  data, heads = path.read_bytes(), records.read_heads(path)
  last = int(heads['at'][3])
  for at in range(int(heads['at'][1]), last):
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    broken = 1 if at < heads['at'][2] else 2
    left = [x for i, x in enumerate(CONTENTS) if i != broken]
    assert read(path) == left


def test_damage_that_came_later_is_told(tmp_path):
  path = tmp_path / '0.log'
  write(path, CONTENTS)
  data, heads = path.read_bytes(), records.read_heads(path)
  at = int(heads['at'][1]) + records.HEAD.itemsize
  path.write_bytes(data[:at] + b'?' + data[at + 1 :])
  with errors.raises(ValueError, '0.log'):
    records.body(path, heads[1])
  assert records.body(path, heads[3]) == CONTENTS[3]


def test_a_record_larger_than_the_room_is_refused(tmp_path):
  path = tmp_path / '0.log'
  write(path, CONTENTS)
  head = records.read_heads(path)[3]
  with errors.raises(ValueError, '149'):
    records.body(path, head, 149)
  assert records.body(path, head, 150) == CONTENTS[3]
