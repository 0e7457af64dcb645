"""docs/NEW_METHOD.md is run as it stands, in a copy of the repository."""

import os
import shlex
import shutil
import subprocess
import sys

import pytest

from tests.docs.pages import ROOT, Page

PAGE = Page('docs/NEW_METHOD.md')
FILES = PAGE.files
COMMANDS = PAGE.blocks('bash')[0].splitlines()


@pytest.fixture(scope='module')
def copy(tmp_path_factory):
  """The repository with the files of the page."""
  root = tmp_path_factory.mktemp('copy')
  for name in ('agentrl', 'configs', 'experiments', 'tests'):
    ignore = shutil.ignore_patterns('__pycache__')
    shutil.copytree(ROOT / name, root / name, symlinks=True, ignore=ignore)
  shutil.copy(ROOT / 'pytest.ini', root)
  for path, text in FILES.items():
    assert not (root / path).exists(), f'{path} is there: show another method'
    (root / path).write_text(text, encoding='utf-8')
  return root


def run(copy, command: str) -> str:
  words = shlex.split(command)
  assert words[0] == 'python'
  done = subprocess.run(
    [sys.executable, *words[1:]],
    cwd=copy,
    env=os.environ | {'JAX_PLATFORMS': 'cpu', 'PYTHONPATH': str(copy)},
    capture_output=True,
    text=True,
    check=False,
  )
  assert done.returncode == 0, done.stdout + done.stderr
  return done.stdout


def test_it_is_short():
  code = [
    line
    for path, text in FILES.items()
    for line in text.splitlines()
    if line and 'tests' not in path
  ]
  assert len(FILES) == 3
  assert len(code) < 40


def test_its_test_passes(copy):
  assert '2 passed' in run(copy, COMMANDS[0] + ' -v -p no:cacheprovider')


@pytest.mark.nightly
def test_its_command_trains(copy):
  few = '--config.steps=2 --config.sft.steps=2 --config.eval.episodes=32'
  assert 'qae' in run(copy, f'{COMMANDS[1]} {few}')
