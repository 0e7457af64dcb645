"""What the machine refuses a run is a sentence and a code that is not 0."""

import errno
import re
import resource
import shutil
import subprocess
import sys
import time

import pytest

from agentrl import cli
from agentrl.log import metrics
from agentrl.runtime import lock
from tests import errors
from tests.integration import toy_run


def told(capsys, workdir, at=lambda step: None) -> str:
  """The sentence of a run that ends by what the machine does not do."""
  with pytest.raises(SystemExit) as caught:
    cli._guarded(lambda: toy_run.run(workdir, at), ['train'], ())
  assert caught.value.code == cli.MACHINE
  said = capsys.readouterr().err
  assert said.startswith('error: ')
  assert said.count('\n') == 1
  return said


def sealed(path, step: int) -> None:
  """Waits for a state that is being saved in the background."""
  while not (path / 'checkpoints' / str(step) / 'manifest.json').exists():
    time.sleep(0.01)
  while (path / 'checkpoints' / 'saving').exists():
    time.sleep(0.01)


@pytest.fixture
def small_files():
  """No file of this process may have more than 200 bytes, as by ulimit -f.

  A whole state of this run has files of less than 2 KB.
  """
  soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

  def limit():
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, hard))

  yield limit
  resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_limit_of_file_sizes(tmp_path, capsys, small_files):
  """The checkpoint before it stands, and the run goes on from there."""
  path = tmp_path / 'run'

  def at(step):
    if step == 5:
      sealed(path, 3)
      small_files()

  said = told(capsys, path, at)
  errors.check(said, 'EFBIG limit')
  assert str(path) in said
  assert toy_run.state(path)[0] == 3


def test_a_full_disk(tmp_path, capsys):
  path = tmp_path / metrics.FILE
  path.symlink_to('/dev/full')
  said = told(capsys, tmp_path)
  errors.check(said, f'{path} ENOSPC room')


def test_a_workdir_that_is_deleted_is_not_made_again(tmp_path, capsys):
  """Whatever it is that would be written next."""
  for last in (2, 4, 9):
    path = tmp_path / str(last)

    def delete(step, path=path, last=last):
      while step == last and path.exists():  # a state is being saved there
        shutil.rmtree(path, ignore_errors=True)

    errors.check(told(capsys, path, delete), str(path))
    assert not path.exists()


def test_one_that_lost_its_workdir_writes_no_more(tmp_path, capsys):
  """Another took it over, as after a stop of more than a minute."""
  before = {}

  def take_over(step):
    if step == 5:
      sealed(tmp_path, 3)
      other = lock.Lock(tmp_path)
      other._free = lambda number: True
      other.__enter__()
      before.update(files(tmp_path))

  assert 'was taken over by process' in told(capsys, tmp_path, take_over)
  assert files(tmp_path) == before


def files(folder) -> dict:
  return {p: p.read_bytes() for p in folder.rglob('*') if p.is_file()}


@pytest.mark.parametrize(
  ('error', 'names'),
  [
    ((errno.EROFS, 'Read-only file system', '/a/b'), '/a/b EROFS writable'),
    ((errno.ENOENT, 'No such file or directory', '/a'), '/a ENOENT removed'),
    ((errno.EIO, 'Input/output error'), 'EIO --verbosity=1'),
    (('the disk is gone',), 'disk gone'),
  ],
)
def test_a_sentence_names_the_file_and_the_error(error, names):
  errors.check(cli.refused(OSError(*error)), names)


def test_nobody_reads_what_is_printed():
  """A full disk behind the standard output."""
  program = (
    'import sys; from agentrl import cli; sys.argv[1:] = [];'
    'cli.run(lambda: print("x"))'
  )
  with open('/dev/full', 'w') as full:
    ran = subprocess.run(
      [sys.executable, '-c', program], stdout=full, stderr=subprocess.PIPE
    )
  said = ran.stderr.decode()
  assert ran.returncode == cli.MACHINE
  assert re.match('error: .*No space left on device', said)
  assert said.count('\n') == 1
