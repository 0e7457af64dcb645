"""JSON objects of a file, whichever way it is written."""

import json

import pytest

from agentrl.dataset import json_documents
from tests import errors

ROW = {'completion': [{'role': 'assistant', 'content': 'b'}], 'reward': 1.0}
TABLE = {'completion': ['a', 'b'], 'reward': [0.0, 1.0], 'kind': 'x'}


@pytest.mark.parametrize(
  ('text', 'want'),
  [
    ('{"a": 1}\n\n{"a": 2}\n', [('line 1', {'a': 1}), ('line 3', {'a': 2})]),
    (json.dumps([{'a': 1}], indent=1), [('entry 1', {'a': 1})]),
    (json.dumps({'a': 1}, indent=1), [('entry 1', {'a': 1})]),
    (json.dumps(ROW, indent=1), [('entry 1', ROW)]),
    (
      json.dumps(TABLE, indent=1),
      [
        ('entry 1', {'completion': 'a', 'reward': 0.0}),
        ('entry 2', {'completion': 'b', 'reward': 1.0}),
      ],
    ),
  ],
)
def test_every_form_gives_objects(tmp_path, text, want):
  (tmp_path / 'f').write_text(text)
  assert list(json_documents.documents(tmp_path / 'f')) == want


def test_mistakes_name_the_line(tmp_path):
  (tmp_path / 'f').write_text('{\n"a": 1,\nb}')
  with errors.raises(ValueError, 'f 3 JSON'):
    list(json_documents.documents(tmp_path / 'f'))
  (tmp_path / 'f').write_text('')
  with errors.raises(ValueError, 'f 1 JSON'):
    list(json_documents.documents(tmp_path / 'f'))
