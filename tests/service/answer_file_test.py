"""File of answers: read again whole, whatever a kill left of its last line."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.service import answer_file
from agentrl.service.answer_file import AnswerFile, content_id
from tests import errors


def test_answers_outlive_the_process(tmp_path):
  path = tmp_path / 'judges' / '0.jsonl'
  one = AnswerFile(path)
  key = content_id('number', 'me', 'How good?\n"é"')
  assert one.get(key) is None
  assert not path.exists()
  one.put(key, '0.5\n')
  one.put(key, '0.9')  # of another thread that asked the same: the first stays
  assert one.get(key) == '0.5\n'
  assert AnswerFile(path).get(key) == '0.5\n'
  assert len(path.read_text().splitlines()) == 1


def test_keys_tell_apart_who_and_what():
  keys = {
    content_id(judge, identity, content)
    for judge in ('a', 'b')
    for identity in ('', 'x')
    for content in ('', '1')
  }
  assert len(keys) == 8


def test_a_damaged_file_loses_what_is_damaged(tmp_path):
  path = tmp_path / 'a.jsonl'
  good = json.dumps({'key': 'k', 'answer': '1'})
  path.write_text(f'{good}\n{{"key": "l", "ans\n[]\n3\n\n{good[:12]}')
  file = AnswerFile(path)
  assert file.get('k') == '1'
  assert file.get('l') is None
  file.put('m', '2')  # on a line of its own, not at the end of the cut one
  assert AnswerFile(path).get('m') == '2'


def test_costs_are_summed_over_runs_and_of_all_that_was_asked(tmp_path):
  path = tmp_path / 'a.jsonl'
  file = AnswerFile(path)
  assert file.put('k', '1', cost=0.5, read=7) == '1'
  assert file.put('k', '2', cost=0.25) == '1'  # paid for, and not taken
  file.note(cost=1.0)
  assert file.cost == AnswerFile(path).cost == 1.75
  assert AnswerFile(path).get('k') == '1'


def test_without_a_path_nothing_is_written(tmp_path):
  file = AnswerFile(None)
  file.put('k', 'v')
  assert file.get('k') == 'v'
  assert not list(tmp_path.iterdir())


BEFORE = b'{"key": "good", "answer": "1", "cost": 0.5}'  # without a checksum
COSTS = (
  'NaN', 'Infinity', '-Infinity', '1e999', '9' * 400, '9' * 5000, '-5.0',
  'true', '"0.5"', 'null', '[1]',
)  # fmt: skip
ANSWERS = ('null', '1', 'true', '["1"]', '{"1": 1}')
KEYS = ('1', 'null')
HOSTILE = {
  **{
    f'cost {x[:9]} of {len(x)}': f'{{"key": "k", "answer": "1", "cost": {x}}}'
    for x in COSTS
  },
  **{f'answer {x}': f'{{"key": "k", "answer": {x}}}' for x in ANSWERS},
  **{f'key {x}': f'{{"key": {x}, "answer": "1"}}' for x in KEYS},
}
HOSTILE = {name: text.encode() for name, text in HOSTILE.items()} | {
  'cost alone, nan': b'{"cost": NaN}',
  'tokens nan': b'{"key": "k", "answer": "1", "read": NaN}',
  'no answer': b'{"key": "k", "cost": 1.0}',
  'no key': b'{"answer": "1"}',
  'key twice': b'{"key": "k", "answer": "1", "key": "l"}',
  'answer twice': b'{"key": "k", "answer": "1", "answer": "2"}',
  'cost twice': b'{"cost": 1.0, "cost": 0.0}',
  'another checksum': b'{"key": "k", "answer": "1", "sum": "0123456789abcdef"}',
  'checksum null': b'{"key": "k", "answer": "1", "sum": null}',
  'checksum misspelt': b'{"key": "k", "answer": "1", "sun": "0123456789abcde"}',
  'cut': b'{"key": "k", "answer": "1',
  'two in a line': b'{"key": "k", "answer": "1"}{"key": "l", "answer": "2"}',
  'a list': b'["k", "1"]',
  'a number': b'3',
  'nan': b'NaN',
  'null': b'null',
  'empty': b'{}',
  'latin 1': b'{"key": "k", "answer": "\xe9"}',
  'utf-16': '{"key": "k", "answer": "1"}'.encode('utf-16'),
  'zeros': b'\0' * 5000,
  'random': bytes(range(256)).replace(b'\n', b''),
  'deep list': b'[' * 200_000,
  'deep object': b'{"key":' * 100_000,
  'deep answer': b'{"key": "k", "answer": %b}'
  % (b'[' * 50_000 + b']' * 50_000),
  'too long': b'{"key": "k", "answer": "%b"}' % (b'x' * answer_file.LONGEST),
  'digits': b'9' * 100_000,
}


@pytest.mark.parametrize('name', HOSTILE)
@pytest.mark.parametrize('end', [b'\n', b''])
def test_a_damaged_line_is_counted_once_and_asked_again(name, end, tmp_path):
  path = tmp_path / 'a.jsonl'
  path.write_bytes(BEFORE + b'\r\n' + HOSTILE[name] + end)
  file = AnswerFile(path)
  assert (file.damaged, file.cost) == (1, 0.5)
  assert file.get('good') == '1'
  for key in ('k', 'l', '1', 'None', ''):
    assert file.get(key) is None
  assert file.put('k', 'anew', cost=0.25) == 'anew'
  again = AnswerFile(path)
  assert (again.damaged, again.cost) == (1, 0.75)
  assert (again.get('k'), again.get('good')) == ('anew', '1')
  assert HOSTILE[name] in path.read_bytes()  # nothing of it is lost


def test_damage_is_said_in_one_sentence(tmp_path, caplog):
  path = tmp_path / 'a.jsonl'
  path.write_bytes(b'\n'.join([BEFORE, *(b'{"cost": NaN}',) * 5, b'', b'']))
  with caplog.at_level('WARNING'):
    AnswerFile(path)
  (record,) = caplog.records
  assert '5 of 6 lines' in record.getMessage()
  assert str(path) in record.getMessage()
  caplog.clear()
  path.write_bytes(BEFORE + b'\n')
  AnswerFile(path)
  assert not caplog.records


TEXT = st.text(max_size=8)


@given(
  TEXT,
  TEXT | st.just('\ud83d'),
  st.floats(0, 1e300) | st.integers(0, 2**50),
  st.integers(0, 10**6),
)
def test_no_bit_of_a_line_flips_unseen(tmp_path_factory, key, answer, cost, at):
  path = tmp_path_factory.mktemp('flip') / 'a.jsonl'
  AnswerFile(path).put(key, answer, cost=cost)
  file = AnswerFile(path)
  assert (file.damaged, file.get(key), file.cost) == (0, answer, cost)
  line = bytearray(path.read_bytes())
  place, bit = divmod(at % (8 * (len(line) - 1)), 8)
  line[place] ^= 1 << bit
  path.write_bytes(line)
  file = AnswerFile(path)
  assert (file.get(key), file.cost) in ((None, 0), (answer, cost))
  assert file.get(key) is not None or file.damaged


def test_what_is_no_file_is_refused(tmp_path):
  os.mkfifo(tmp_path / 'fifo')
  (tmp_path / 'folder').mkdir()
  for name in ('fifo', 'folder'):
    with errors.raises(ValueError, f'{name}'):
      AnswerFile(tmp_path / name)
