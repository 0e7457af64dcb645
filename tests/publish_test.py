"""Versions of weights: whole, checked, and as many as are needed."""

import pytest

from agentrl import publish


def write(text):
  return lambda folder: (folder / 'model.bin').write_text(text)


def test_a_version_and_those_before_it(tmp_path):
  assert publish.newest(tmp_path / 'nowhere') == 0
  for version in (3, 4, 5):
    made = publish.publish(tmp_path, version, write(f'weights {version}'))
    assert publish.check(made) == version
  assert publish.newest(tmp_path) == 5
  names = sorted(x.name for x in tmp_path.iterdir())
  assert names == ['v000004', 'v000005']
  again = publish.publish(tmp_path, 5, write('after a resume'))
  assert (again / 'model.bin').read_text() == 'after a resume'
  assert publish.check(again) == 5


def test_a_version_that_was_cut_short(tmp_path):
  def stopped(folder):
    (folder / 'model.bin').write_text('half')
    raise KeyboardInterrupt

  with pytest.raises(KeyboardInterrupt):
    publish.publish(tmp_path, 1, stopped)
  assert [x.name for x in tmp_path.iterdir()] == ['v000001.tmp']
  assert publish.check(publish.publish(tmp_path, 1, write('whole'))) == 1
  assert [x.name for x in tmp_path.iterdir()] == ['v000001']


@pytest.mark.parametrize('harm', ['COMPLETE', 'model.bin', 'text', 'size'])
def test_a_version_that_is_not_whole_is_refused(tmp_path, harm):
  made = publish.publish(tmp_path, 1, write('weights'))
  if harm in ('text', 'size'):
    (made / 'model.bin').write_text('Weights' if harm == 'text' else 'weight')
  else:
    (made / harm).unlink()
  sentence = 'no complete version' if harm == 'COMPLETE' else 'not as it was'
  with pytest.raises(ValueError, match=sentence):
    publish.check(made)
