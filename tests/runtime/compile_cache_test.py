"""Every command has a compilation cache, unless the user chose another."""

import os
import subprocess
import sys

import pytest

from agentrl.runtime import compile_cache

PROGRAM = """
import os
from agentrl import cli
from agentrl.runtime import compile_cache
def main():
  import jax
  c = jax.config
  seconds = c.jax_persistent_cache_min_compile_time_secs
  print(c.jax_compilation_cache_dir, seconds, c.jax_compilation_cache_max_size)
  # What a command starts would take variables for the user's.
  print(*set(compile_cache.variables('')) & set(os.environ))
  c.update('jax_persistent_cache_min_compile_time_secs', 0)
  jax.jit(lambda x: x + 1)(1.0).block_until_ready()
cli.run(main)
"""


def run(home, **env: str) -> str:
  unset = (compile_cache.FOLDER, *compile_cache.variables(''))
  inherited = {k: v for k, v in os.environ.items() if k not in unset}
  env = inherited | {'XDG_CACHE_HOME': str(home), 'JAX_PLATFORMS': 'cpu'} | env
  command = [sys.executable, '-c', PROGRAM]
  done = subprocess.run(command, env=env, capture_output=True, text=True)
  assert done.returncode == 0, done.stderr
  assert not done.stderr
  return done.stdout


def test_default(tmp_path):
  folder = tmp_path / 'agentrl' / 'jax'
  settings = folder, compile_cache.SECONDS, compile_cache.BYTES
  assert run(tmp_path).split() == [*map(str, settings)]
  assert any(folder.iterdir())


@pytest.mark.parametrize('chosen', ['', 'own'])
def test_users_choice_wins(tmp_path, chosen):
  folder = str(tmp_path / chosen) if chosen else ''
  out = run(tmp_path, JAX_COMPILATION_CACHE_DIR=folder)
  assert out.startswith(f'{folder} 1.0 -1')  # JAX's own defaults
  assert not (tmp_path / 'agentrl').exists()


def test_no_home_no_cache(tmp_path):
  home = tmp_path / 'file'
  home.write_text('')  # a folder cannot be made below it
  assert run(home).startswith('None')


def test_folder_without_xdg(monkeypatch):
  monkeypatch.delenv('XDG_CACHE_HOME', raising=False)
  monkeypatch.setenv('HOME', '/somewhere')
  assert compile_cache.default_folder() == '/somewhere/.cache/agentrl/jax'
