"""Files of a run, on disk and in an emulated bucket: the same behaviour."""

import pathlib

import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.log import metrics, shards, trajectories
from agentrl.run import workdir
from agentrl.runtime import checkpoint, storage
from tests import errors
from tests.bucket import bucket  # noqa: F401
from tests.log.trajectories_test import trajectory


@pytest.fixture(params=['disk', 'bucket'])
def folder(request, tmp_path) -> storage.Path:
  if request.param == 'disk':
    return tmp_path
  return storage.path(request.getfixturevalue('bucket'))


def test_a_path_is_local_unless_it_begins_with_gs(tmp_path):
  assert storage.path(tmp_path) == tmp_path
  assert isinstance(storage.path('a/b'), pathlib.Path)
  assert storage.absolute('a') == str(pathlib.Path('a').absolute())
  assert storage.absolute('gs://b/a/') == 'gs://b/a'


def test_a_bucket_that_is_not_there_is_one_sentence(bucket):  # noqa: F811
  with errors.raises(ValueError, 'gs://no-such-bucket') as e:
    storage.path('gs://no-such-bucket/run')
  assert 'credentials' in str(e.value)
  assert '\n' not in str(e.value)


def test_files_are_written_whole_listed_and_removed(folder):
  (folder / 'deep').mkdir(parents=True, exist_ok=True)
  storage.write(folder / 'a', 'one')
  storage.write(folder / 'a', b'two!')
  storage.write(folder / 'deep' / 'b', b'')
  assert storage.files(folder) == {'a': 4, 'deep/b': 0}
  assert storage.read(folder / 'a') == b'two!'
  assert storage.read(folder / 'a', 1, 3) == b'wo'
  assert storage.read(folder / 'a', 9) == b''
  assert storage.read(folder / 'deep' / 'b') == b''
  storage.truncate(folder / 'a', 2)
  assert (folder / 'a').read_bytes() == b'tw'
  storage.remove(folder / 'deep')
  storage.remove(folder / 'deep')
  assert storage.files(folder) == {'a': 2}


def test_a_file_that_a_library_fails_to_write_is_not_left(tmp_path):
  place = tmp_path / 'file'
  with errors.raises(OSError, 'full'), storage.shared(place):
    raise OSError('full')
  assert not place.exists()
  with storage.shared(place):
    place.unlink()
    place.write_text('x')
    place.chmod(0o600)
  (tmp_path / 'like').touch()
  assert place.read_text() == 'x'
  assert place.stat().st_mode == (tmp_path / 'like').stat().st_mode


def test_a_new_file_is_made_once(folder):
  storage.create(folder / 'a', b'mine')
  with pytest.raises(FileExistsError):
    storage.create(folder / 'a', b'yours')
  assert storage.read(folder / 'a') == b'mine'


def test_files_and_folders_are_set_aside(folder):
  (folder / 'run').mkdir(parents=True, exist_ok=True)
  storage.write(folder / 'run' / 'x', b'1')
  storage.write(folder / 'a', b'2')
  assert storage.set_aside(folder / 'run', 'is odd').name == 'run.damaged.1'
  storage.copy_aside(folder / 'a', 'is odd')
  assert storage.set_aside(folder / 'a', 'is odd').name == 'a.damaged.2'
  assert storage.files(folder) == {
    'a.damaged.1': 1,
    'a.damaged.2': 1,
    'run.damaged.1/x': 1,
  }


def test_digests_tell_contents_apart_wherever_they_lie(folder, tmp_path):
  storage.write(folder / 'a', b'one')
  digest = storage.digest(folder / 'a')
  storage.write(tmp_path / 'copy', b'one')
  assert storage.digest(tmp_path / 'copy', digest) == digest
  assert storage.digest(folder / 'a', digest) == digest
  local = storage.digest(tmp_path / 'copy')
  assert storage.digest(folder / 'a', local) == local
  storage.write(folder / 'a', b'two')
  assert storage.digest(folder / 'a', digest) != digest


def test_appending_goes_on_behind_what_is_kept(folder):
  storage.write(folder / 'a', b'one\ntorn')
  file = storage.Appender(folder / 'a', 4)
  file.write(b'two\n')
  file.flush()
  assert storage.read(folder / 'a') == b'one\ntwo\n'
  file.write(b'three\n')
  file.write(b'four\n')
  file.close()
  assert storage.read(folder / 'a') == b'one\ntwo\nthree\nfour\n'
  assert storage.files(folder) == {'a': 19}


def test_a_bucket_gets_what_is_appended_every_few_seconds(bucket, monkeypatch):  # noqa: F811
  place = storage.path(bucket) / 'a'
  file = storage.Appender(place)
  file.write(b'one')
  assert storage.read(place) == b''
  monkeypatch.setattr(storage, 'UPLOAD', -1.0)
  file.write(b'two')
  assert storage.read(place) == b'onetwo'


def test_a_request_that_was_repeated_appends_once(bucket, monkeypatch):  # noqa: F811
  place = storage.path(bucket) / 'a'
  file = storage.Appender(place)
  system = storage._bucket()
  merge = system.merge

  def twice(whole, parts):
    merge(whole, parts)
    merge(whole, parts)

  monkeypatch.setattr(system, 'merge', twice)
  for line in (b'one\n', b'two\n'):
    file.write(line)
    file.flush()
  assert storage.read(place) == b'one\ntwo\n'


def test_metrics_resume_without_gap_or_duplicate(bucket):  # noqa: F811
  folder = storage.path(bucket)
  for steps, after in (([1, 2, 3], None), ([3, 4], 2), ([1], None)):
    writer = metrics.MetricsWriter(folder, resume_after=after, header={'a': 1})
    for step in steps:
      writer.write(step, {'x': step / 3}, phase='rl')
    writer.close()
    rows = metrics.read(folder / metrics.FILE)
    assert [r['step'] for r in rows] == [*range(1, (after or 0) + 1), *steps]
  events = [x for x in storage.files(folder) if x.startswith('tensorboard/')]
  assert len(events) in (2, 3)  # named by the second and the first step
  assert 'metrics.1.jsonl' in storage.files(folder)


def test_trajectories_resume_and_are_read_one_by_one(folder, monkeypatch):
  monkeypatch.setattr(trajectories, 'SHARD', 1000)
  for steps, after in ((range(1, 30), None), (range(20, 24), 19)):
    log = trajectories.TrajectoryWriter(folder, resume_after=after)
    for step in steps:
      log.write(trajectory(step))
    log.close()
  log = trajectories.Log(folder)
  assert log.heads['step'].tolist() == list(range(1, 24))
  assert log[21] == trajectory(22)
  for name in storage.files(folder):
    if name.endswith('.index'):
      storage.remove(folder / name)
  again = trajectories.Log(folder)
  np.testing.assert_array_equal(again.heads, log.heads)
  assert len([x for x in storage.files(folder) if x.endswith('.jsonl')]) > 3
  assert again.heads.dtype == shards.HEAD


def state(x: float) -> dict:
  return {'w': jnp.arange(3000.0) * x, 'n': jnp.int32(x)}


@pytest.mark.slow
def test_checkpoints_in_a_bucket(bucket):  # noqa: F811
  """What is damaged is kept beside, and what was cut short is removed."""
  folder = storage.path(bucket) / 'checkpoints'
  saves = checkpoint.Checkpoints(folder)

  def kept() -> set[str]:
    saves.wait()
    return {x.partition('/')[0] for x in storage.files(folder)}

  for step in (1, 2, 3):
    saves.save(step, state(step), {'step': step})
  assert kept() == {'2', '3'}
  storage.write(folder / '3' / 'state/manifest.ocdbt', b'?')
  step, back, meta = saves.latest(state(0))
  assert (step, meta) == (2, {'step': 2})
  np.testing.assert_array_equal(back['w'], state(2)['w'])
  saves.save(4, state(4), {})
  assert kept() == {'2', '3.damaged.1', '4'}
  storage.remove(folder / '4' / 'manifest.json')
  storage.write(folder / 'saving', '4')
  assert saves.latest(state(0))[0] == 2
  saves.save(4, state(7), {})
  assert float(saves.latest(state(0))[1]['n']) == 7
  saves.close()


def test_a_folder_of_no_run_is_named(folder):
  with pytest.raises(ValueError):
    workdir.read_config(str(folder))
