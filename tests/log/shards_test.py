"""JSONL shards that survive kills, cuts and damage."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.log import shards, trajectories
from tests import errors


def content(step: int, text: str = '') -> bytes:
  return trajectories.encode(
    {
      'phase': 'rl',
      'step': step,
      'task': 1,
      'group': 2,
      'member': 3,
      'status': 'solved',
      'outcome': 0.25,
      'reward': -3.0,
      'turns': [{'said': {'tokens': [1, 2], 'text': text}}],
    }
  )


CONTENTS = [content(i, 'x\n\r\u2028' * 7 * i) for i in range(4)]


def write(path, contents, keep=None):
  none = np.empty(0, shards.HEAD)
  file = shards.ShardWriter(path, none if keep is None else keep)
  for x in contents:
    file.write(shards.facts(json.loads(x)), x)
  file.close()


def read(path):
  return [shards.body(path, head) for head in shards.read_heads(path)]


@settings(deadline=None, max_examples=30)
@given(st.lists(st.text(max_size=200), max_size=6))
def test_what_is_written_is_read(tmp_path_factory, texts):
  path = tmp_path_factory.mktemp('x') / '0.jsonl'
  contents = [content(i, text) for i, text in enumerate(texts)]
  write(path, contents)
  with_index = shards.read_heads(path)
  assert read(path) == contents
  lines = path.read_text(encoding='utf-8').split('\n')[:-1]
  assert [json.loads(x)['turns'][0]['said']['text'] for x in lines] == texts
  shards.index_of(path).unlink()
  assert read(path) == contents
  np.testing.assert_array_equal(shards.read_heads(path), with_index)
  assert with_index['step'].tolist() == list(range(len(contents)))
  assert set(with_index['outcome'].tolist()) <= {0.25}


@pytest.mark.parametrize(
  'index',
  ['none', 'cut along']
  + [pytest.param(x, marks=pytest.mark.nightly) for x in ('stale', 'of more')],
)
def test_cut_at_every_byte_of_the_last_two(tmp_path, index):
  """All lines before the cut are read, and writing goes on behind them."""
  whole = tmp_path / 'whole.jsonl'
  write(whole, CONTENTS)
  data, heads = whole.read_bytes(), shards.read_heads(whole)
  starts, some = heads['at'].tolist(), heads.tobytes()
  left = {
    'none': 0,
    'stale': heads.itemsize,
    'cut along': len(some) * 3 // 5,
    'of more': len(some),
  }[index]
  path = tmp_path / 'cut.jsonl'
  for size in range(starts[-2], len(data)):
    path.write_bytes(data[:size])
    shards.index_of(path).write_bytes(some[:left])
    n = 2 if size < starts[-1] else 3
    assert read(path) == CONTENTS[:n]
    if size % 40:  # writing waits for the disk
      continue
    write(path, [content(9)], shards.read_heads(path))
    assert read(path) == [*CONTENTS[:n], content(9)]
    assert len(shards.index_of(path).read_bytes()) == (n + 1) * heads.itemsize


def test_damage_costs_only_its_own_line(tmp_path):
  path = tmp_path / '0.jsonl'
  write(path, CONTENTS)
  data, heads = path.read_bytes(), shards.read_heads(path)
  shards.index_of(path).unlink()
  first, last = int(heads['at'][1]), int(heads['at'][2])
  for at in range(first, last - 1):  # not the newline, which two share
    path.write_bytes(data[:at] + b'\0' + data[at + 1 :])
    assert read(path) == [x for i, x in enumerate(CONTENTS) if i != 1]


def test_damage_that_the_index_hides_is_told(tmp_path):
  path = tmp_path / '0.jsonl'
  write(path, CONTENTS)
  data, heads = path.read_bytes(), shards.read_heads(path)
  at = int(heads['at'][1]) + 4
  path.write_bytes(data[:at] + b'?' + data[at + 1 :])
  with errors.raises(ValueError, '0.jsonl'):
    shards.body(path, shards.read_heads(path)[1])
  assert shards.body(path, shards.read_heads(path)[3]) == CONTENTS[3]


def test_an_index_with_any_byte_changed_is_made_again(tmp_path):
  path = tmp_path / '0.jsonl'
  write(path, CONTENTS)
  want, index = shards.read_heads(path), shards.index_of(path)
  data = index.read_bytes()
  for at in range(len(data)):
    index.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    np.testing.assert_array_equal(shards.read_heads(path), want)


def test_an_index_of_another_file_is_not_believed(tmp_path):
  one, other = tmp_path / '1.jsonl', tmp_path / '2.jsonl'
  write(one, CONTENTS)
  write(other, CONTENTS[::-1])
  index = shards.index_of(other).read_bytes()
  shards.index_of(one).write_bytes(index)
  assert read(one) == CONTENTS


def test_one_of_many_is_read_alone(tmp_path, monkeypatch):
  """Opening with an index parses no line."""
  path = tmp_path / '0.jsonl'
  write(path, [content(i) for i in range(300)])
  monkeypatch.setattr(shards, '_parse', None)
  heads = shards.read_heads(path)
  assert json.loads(shards.body(path, heads[123]))['step'] == 123
  assert len(shards.read_heads(path, heads)) == 300


def test_a_line_larger_than_the_room_is_refused(tmp_path):
  path = tmp_path / '0.jsonl'
  write(path, CONTENTS)
  with errors.raises(ValueError, '9'):
    shards.body(path, shards.read_heads(path)[1], 9)
