"""The Python of docs/howto/library.md, run in order with a small checkpoint."""

import pytest

from tests import checkpoints
from tests.docs.pages import Page

CODE = Page('docs/howto/library.md').code
NAME = 'Qwen/Qwen2.5-0.5B-Instruct'


@pytest.mark.slow
def test_it_runs(tmp_path, monkeypatch):
  """All but the iteration of the run."""
  checkpoints.model(checkpoints.chat(tmp_path / 'model', 'chatml'))
  monkeypatch.chdir(tmp_path)
  names = {'__name__': '__main__'}
  for code in CODE:
    if not code.startswith('with run'):
      exec(code.replace(NAME, 'model'), names)
  assert len(CODE) == 5
  assert len(names['samples']) == 16
  c = names['run'].config
  assert c.env.name == 'jsonl'
  assert [x.startswith('object:') for x in c.reward] == [False, True]
  assert names['both']('2', {'answer': 2}) == (
    1,
    {'right': True, 'short': True},
  )
