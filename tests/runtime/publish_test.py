"""Versions of weights: whole, checked, and as many as are needed."""

import json
import os

import pytest

from agentrl.runtime import publish
from tests import errors, hostile


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


def test_what_was_published_stays_beside_newer_versions(tmp_path):
  for version in (8, 9, 3):
    made = publish.publish(tmp_path, version, write('weights'))
  assert publish.check(made) == 3
  assert sorted(x.name for x in tmp_path.iterdir()) == ['v000003', 'v000009']


def test_a_version_that_was_cut_short(tmp_path):
  def stopped(folder):
    (folder / 'model.bin').write_text('half')
    raise KeyboardInterrupt

  with pytest.raises(KeyboardInterrupt):
    publish.publish(tmp_path, 1, stopped)
  assert [x.name for x in tmp_path.iterdir()] == ['v000001.tmp']
  assert publish.check(publish.publish(tmp_path, 1, write('whole'))) == 1
  assert [x.name for x in tmp_path.iterdir()] == ['v000001']


def _manifest(made, change):
  file = made / publish.MANIFEST
  file.write_text(change(file.read_text()))


def _flip(made):
  data = bytearray((made / 'model.bin').read_bytes())
  data[3] ^= 1
  (made / 'model.bin').write_bytes(data)


def _replaced(make):
  def harm(made):
    (made / 'model.bin').unlink()
    make(made / 'model.bin')

  return harm


HARMS = {
  'torn': lambda x: (x / 'model.bin').write_text('weig'),
  'grown': lambda x: (x / 'model.bin').write_text('weights!'),
  'emptied': lambda x: (x / 'model.bin').write_text(''),
  'flipped': _flip,
  'missing': lambda x: (x / 'model.bin').unlink(),
  'folder': _replaced(lambda x: x.mkdir()),
  'pipe': _replaced(os.mkfifo),
  'link': _replaced(lambda x: x.symlink_to(x.parent.parent / 'twin')),
  'dangling': _replaced(lambda x: x.symlink_to('nowhere')),
  'unnamed': lambda x: (x / 'arrays.safetensors').write_text('other'),
  'unnamed below': lambda x: (x / 'a').mkdir() or (x / 'a/b').write_text(''),
  'no manifest': lambda x: (x / publish.MANIFEST).unlink(),
  'no mark': lambda x: (x / publish.COMPLETE).unlink(),
  'pipe for a mark': lambda x: (
    (x / publish.COMPLETE).unlink() or os.mkfifo(x / publish.COMPLETE)
  ),
  'no files': lambda x: _manifest(x, lambda _: '{"version": 1, "files": {}}'),
  'no version': lambda x: _manifest(x, lambda t: t.replace('version', 'x')),
  'another': lambda x: _manifest(x, lambda t: t.replace(': 1,', ': 2,')),
  'above': lambda x: _manifest(x, lambda t: t.replace('model', '../twin')),
  'size': lambda x: _manifest(x, lambda t: t.replace('"size": 7', '"size": 8')),
  'renamed': lambda x: x.rename(x.parent / 'v000002'),
}


@pytest.mark.parametrize('harm', HARMS)
def test_every_harm_is_seen_and_the_version_before_stays(tmp_path, harm):
  before = publish.publish(tmp_path, 3, write('before'))
  made = publish.publish(tmp_path, 1, write('weights'))
  (tmp_path / 'twin').write_text('weights')
  HARMS[harm](made)
  made = tmp_path / 'v000002' if harm == 'renamed' else made
  with errors.raises(ValueError, str(made)):
    publish.check(made)
  assert publish.check(before) == 3


@pytest.mark.parametrize('value', hostile.VALUES, ids=lambda x: x[:20])
def test_no_value_in_a_manifest_is_taken_for_another(tmp_path, value):
  made = publish.publish(tmp_path, 1, write('weights'))
  text = (made / publish.MANIFEST).read_text()
  whole = [
    value,
    *(x for *_, x in hostile.mutations(json.loads(text), [value])),
  ]
  for changed in whole:
    (made / publish.MANIFEST).write_text(changed)
    with pytest.raises(ValueError):
      publish.check(made)


def test_only_versions_are_counted_and_cleared(tmp_path):
  for name in ('v1-notes', 'v²', 'v000001.tmp', 'v99999999999999999999'):
    (tmp_path / name).mkdir()
  (tmp_path / 'v000009').write_text('a file')
  assert publish.newest(tmp_path) == 0
  for version in (999_998, 999_999, 1_000_000):
    publish.publish(tmp_path, version, write('x'))
  assert publish.newest(tmp_path) == 1_000_000
  left = {x.name for x in tmp_path.iterdir()}
  assert left == {
    *('v1-notes', 'v²', 'v99999999999999999999', 'v000009'),
    *('v999999', 'v1000000'),
  }
