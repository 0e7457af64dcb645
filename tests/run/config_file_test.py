"""One method is one module, by whichever name it is asked for."""

import importlib
import os
import subprocess
import sys

import pytest

from agentrl.configs import base
from agentrl.run import config_file
from tests import errors


def test_a_method_is_one_module(tmp_path, monkeypatch):
  there = importlib.import_module('agentrl.configs.oprl')
  for name in ('oprl', 'configs/oprl.py', config_file.FOLDER / 'oprl.py'):
    assert config_file.load_module(str(name)) is there
  monkeypatch.chdir(tmp_path)  # where nothing is cloned
  config_file.load_module.cache_clear()
  for name in ('oprl', 'configs/oprl.py'):
    assert config_file.load_module(name) is there
  studies = config_file.load_module('configs/studies/oprl.py')
  assert studies is importlib.import_module('agentrl.configs.studies.oprl')


def test_a_file_wins_over_a_method_of_its_name(tmp_path, monkeypatch):
  (tmp_path / 'oprl').write_text('')
  monkeypatch.chdir(tmp_path)
  assert config_file.find('oprl') == 'oprl'
  assert config_file.find('grpo').endswith('grpo.py')


@pytest.mark.parametrize('name', ['', 'base', 'configs/base', 'opr', '/'])
def test_what_is_no_config_is_told_the_methods(name, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  with pytest.raises(ValueError):
    config_file.find(name)


@pytest.mark.slow
def test_the_console_script_starts_the_mains():
  code = 'from agentrl import cli; cli.command()'
  for words, status, text in (
    ([], 0, 'usage: agentrl COMMAND ...;'),
    (['fly'], 2, "error: unknown command 'fly'; agentrl --help lists them"),
    (['eval'], 2, 'error: the flag --workdir is missing'),
  ):
    ran = subprocess.run(
      [sys.executable, '-c', code, *words], capture_output=True, text=True
    )
    assert ran.returncode == status
    assert text in ran.stdout + ran.stderr
    assert 'Traceback' not in ran.stderr


def test_components_change_before_their_hyper_parameters():
  changes = {'hp.ppo_dual.ppo_dual.dual': 2.0, 'loss': ('ppo_dual',)}
  c = config_file.change(config_file.load('grpo:tiny'), changes)
  assert (c.loss, c.hp.ppo_dual.ppo_dual.dual) == (('ppo_dual',), 2.0)


@pytest.mark.parametrize(
  ('path', 'names'),
  [
    ('stepz', 'config.stepz steps'),
    ('steps.x', 'config.steps.x 300'),
    ('rollout.turns', 'config.rollout.turns max_turns'),
    ('rollout.max_turns', ''),
  ],
)
def test_a_field_that_a_config_lacks_is_explained(path, names):
  text = config_file.no_field(config_file.load('grpo'), path)
  errors.check(text, names)
  assert bool(text) == bool(names)


HEAD = 'from agentrl.configs import base\ndef get_config(arg):\n'
HALF = 'def half():\n  raise ValueError("no half")\n\n'


@pytest.mark.parametrize(
  ('text', 'names'),
  [
    ('def get_config(arg):\n  return 1 +\n', 'c.py 2'),
    ('{"steps": 3}', 'c.py get_config'),
    ('', 'c.py get_config'),
    ('\0', 'c.py'),
    ('import no_such_module\n', 'c.py 1 ModuleNotFoundError'),
    ('def get_config():\n  return {}\n', 'c.py'),
    (HEAD + '  return nope\n', 'c.py 3 NameError nope'),
    (HEAD + '  return None\n', 'c.py NoneType ConfigDict'),
    (HEAD + '  return {"steps": 3}\n', 'c.py'),
    (HEAD + '  return base\n', 'c.py ConfigDict'),
    (HEAD + '  return {}[0]', 'c.py 3 KeyError'),
    (HALF + HEAD + '  return half()', 'c.py 2 ValueError half'),
    # Of what it calls, a ValueError is a sentence; other errors have a line.
    (HEAD + '  return base.get_config("tny")\n', 'tny'),
    (HEAD + '  return open("/no/such/file")\n', 'c.py 3 FileNotFoundError'),
    (
      HEAD + '  c = base.get_config(arg)\n  c.loss = "x"\n  return c\n',
      'c.py 4 TypeError loss',
    ),
  ],
)
def test_an_error_in_a_file_says_where(tmp_path, text, names):
  path = tmp_path / 'c.py'
  path.write_text(text)
  with errors.raises(ValueError, names) as caught:
    config_file.load(str(path))
  assert '\n' not in str(caught.value)
  assert (', line ' in str(caught.value)) == any(x.isdigit() for x in names)


def test_a_config_file_that_is_none_is_not_waited_for(tmp_path):
  os.mkfifo(tmp_path / 'c.py')
  for path in (tmp_path, tmp_path / 'c.py', tmp_path / 'nope.py'):
    with pytest.raises(ValueError):
      config_file.load(str(path))


def test_a_config_file_is_loaded_with_its_argument(tmp_path):
  path = tmp_path / 'c.py'
  path.write_text(HEAD + '  return base.get_config(arg)\n')
  c = config_file.load(f'{path}:tiny')
  assert c.to_dict() == base.get_config('tiny').to_dict()
