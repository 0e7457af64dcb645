"""Every command has a compilation cache, unless the user chose another."""

import os
import subprocess
import sys

import pytest

from agentrl.runtime import compile_cache

MAIN = """
from agentrl import cli
def main():
  import jax
  c = jax.config
  seconds = c.jax_persistent_cache_min_compile_time_secs
  print(c.jax_compilation_cache_dir, seconds, c.jax_compilation_cache_max_size)
cli.run(main)
"""
PROGRAM = """
from agentrl import cli
def main():
  import jax
  jax.config.update('jax_persistent_cache_min_compile_time_secs', 0)
  jax.jit(lambda x: x + 1)(1.0).block_until_ready()
cli.run(main)
"""


def run(program: str, home, **env: str) -> str:
  unset = (compile_cache.FOLDER, *compile_cache.variables(''))
  inherited = {k: v for k, v in os.environ.items() if k not in unset}
  env = inherited | {'XDG_CACHE_HOME': str(home), 'JAX_PLATFORMS': 'cpu'} | env
  command = [sys.executable, '-c', program]
  done = subprocess.run(command, env=env, capture_output=True, text=True)
  assert done.returncode == 0, done.stderr
  assert not done.stderr
  return done.stdout


def test_default(tmp_path):
  folder = tmp_path / 'agentrl' / 'jax'
  assert run(MAIN, tmp_path).split() == [
    str(folder),
    str(compile_cache.SECONDS),
    str(compile_cache.BYTES),
  ]
  run(PROGRAM, tmp_path)
  assert any(folder.iterdir())


@pytest.mark.parametrize('chosen', ['', 'own'])
def test_users_choice_wins(tmp_path, chosen):
  folder = str(tmp_path / chosen) if chosen else ''
  out = run(MAIN, tmp_path, JAX_COMPILATION_CACHE_DIR=folder)
  assert out.startswith(f'{folder} 1.0 -1')  # JAX's own defaults
  run(PROGRAM, tmp_path, JAX_COMPILATION_CACHE_DIR=folder)
  assert not (tmp_path / 'agentrl').exists()


def test_what_a_command_starts_may_have_a_cache_of_its_own(tmp_path):
  """As runs of a sweep have: variables in the environment are the user's."""
  inherited = """
import os
from agentrl import cli
from agentrl.runtime import compile_cache
cli.run(lambda: print(set(compile_cache.variables('')) & set(os.environ)))
"""
  assert run(inherited, tmp_path).strip() == 'set()'


def test_no_home_no_cache(tmp_path):
  home = tmp_path / 'file'
  home.write_text('')  # a folder cannot be made below it
  assert run(MAIN, home).startswith('None')


def test_folder_without_xdg(monkeypatch):
  monkeypatch.delenv('XDG_CACHE_HOME', raising=False)
  monkeypatch.setenv('HOME', '/somewhere')
  assert compile_cache.default_folder() == '/somewhere/.cache/agentrl/jax'
