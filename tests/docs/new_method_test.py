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
LINK = 'agentrl/advantage/quantile.py'
TEST = 'tests/advantage/quantile_test.py'
FEW = '--config.steps=2 --config.sft.steps=2 --config.eval.episodes=32'


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
    if line and path in (LINK, 'configs/qae.py')
  ]
  assert set(FILES) == {LINK, 'configs/qae.py', TEST, 'calm.py'}
  assert len(code) < 40


def test_its_test_passes(copy):
  assert '2 passed' in run(copy, COMMANDS[0] + ' -v -p no:cacheprovider')


@pytest.mark.nightly
def test_its_command_trains(copy):
  assert 'qae' in run(copy, f'{COMMANDS[1]} {FEW}')


def test_its_loss_is_what_it_says(copy):
  """|log ρ| of .5, .1, 0 with .2 of it free: (.3)² / 2, 0, 0."""
  code = """
import jax.numpy as jnp
from agentrl import registry, types
from agentrl.configs import base
import calm
c = calm.get_config('tiny')
registry.check(base.wiring(c))
assert c.hp.calm.calm.free == 0 and c.coef.calm == 0.1
x = types.LossInputs(
  outputs=types.Outputs(logp=jnp.array([[-1.5, -0.9, -1.0]])),
  signals={'old_logp': jnp.full((1, 3), -1.0)},
  batch=None, credit=None, key=None,
)
value, metrics = calm.calm(x, free=0.2)
assert jnp.allclose(value, jnp.array([[0.045, 0, 0]])), value
print('fits')
"""
  assert 'fits' in run(copy, f'python -c {shlex.quote(code)}')


@pytest.mark.nightly
def test_its_loss_trains(copy):
  command = PAGE.blocks('bash')[1].replace('\\\n', '')
  assert 'calm_grpo' in run(copy, f'{command} {FEW}')
