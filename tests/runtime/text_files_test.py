"""Files of users: every encoding and damage gives text or one sentence."""

import codecs
import gzip
import json
import os
import time

import pytest

from agentrl.runtime import text_files
from tests import errors, hostile


@pytest.mark.parametrize(
  ('data', 'want'),
  [
    (b'', []),
    (b'a', ['a']),
    (b'a\n\nb\n', ['a', '', 'b']),
    (codecs.BOM_UTF8 + b'a\r\nb\r\n', ['a', 'b']),
    ('é\u2028x\n\x0cy'.encode(), ['é\u2028x', '\x0cy']),
  ],
)
def test_lines_end_where_lines_end(tmp_path, data, want):
  (tmp_path / 'f').write_bytes(data)
  assert list(text_files.lines(tmp_path / 'f')) == [*enumerate(want, 1)]
  text = data.removeprefix(codecs.BOM_UTF8).decode().replace('\r\n', '\n')
  assert text_files.read(tmp_path / 'f') == text


@pytest.mark.parametrize(
  'data',
  [
    b'ok\n\xff',
    'ok\nx'.encode('utf-16').replace(b'\xff\xfe', b'ok\n\xff\xfe'),
    b'ok\n' + 'é'.encode('latin-1'),
    b'ok\n\xed\xa0\x80',  # a surrogate, as CESU-8 has them
    b'ok\nab\xe2\x80',  # cut
    b'ok\n' + gzip.compress(b'{}', mtime=0),
  ],
)
def test_other_encodings_name_file_and_line(tmp_path, data):
  (tmp_path / 'f').write_bytes(data)
  with errors.raises(ValueError, 'f 2 UTF-8'):
    text_files.read(tmp_path / 'f')


def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path):
  os.mkfifo(tmp_path / 'pipe')
  bad = (tmp_path / 'pipe', tmp_path, tmp_path / 'none', '/dev/full', 'a\0b')
  for path in (*bad, '/dev/zero', tmp_path / ('x' * 300)):
    with pytest.raises(ValueError):
      text_files.read(path)


@pytest.mark.parametrize(
  'text',
  [
    *('', '{', '{]', "{'a': 1}", 'nul', '[1,]', '1 2'),
    *('NaN', '[-Infinity]', '{"a": 1e400}', '-1e999', '1' * 5000),
    *('[' * 100_000, '[' * 100_000 + ']' * 100_000, '{"a":' * 10_000),
    *('{"a": 1, "a": 1}', '["\\ud83d"]', '{"\\udc00": 1}'),
  ],
)
def test_bad_json_is_one_kind_of_error(tmp_path, text):
  with pytest.raises(text_files.NotJSONError):
    text_files.parse(text)
  (tmp_path / 'f').write_text(text)
  with errors.raises(ValueError, 'f JSON'):
    text_files.read_json(tmp_path / 'f')


def test_a_key_that_is_there_twice_is_found_at_once():
  keys = ', '.join(f'"k{i}": 0' for i in range(100_000))
  begun = time.process_time()
  with errors.raises(text_files.NotJSONError, 'last'):
    text_files.parse(f'{{{keys}, "last": 0, "last": 0}}')
  assert time.process_time() - begun < 5


def test_good_json_is_what_json_reads():
  for text in (
    '{"a": [1, 2.5, null, true, "\\ud83d\\ude00"], "b": {}}',
    '1e308',
    '"\\\\ud83d"',
    '1' + '0' * 400,
  ):
    assert text_files.parse(text) == json.loads(text)


@pytest.mark.parametrize('value', hostile.VALUES, ids=lambda x: x[:20])
def test_every_value_is_read_or_refused(value):
  try:
    text_files.parse(value)
    why = ''
  except text_files.NotJSONError as error:
    why = str(error)
  assert len(why) < 200
