"""docs/JUDGES.md is run as it stands, and names what there is."""

import ast
import os
import re
import shlex
import subprocess
import sys

import pytest

from agentrl import registry
from agentrl.configs import base
from agentrl.configs.config import declared
from agentrl.judge import item, panel
from agentrl.run import config_file
from tests.docs.pages import ROOT, Page

PAGE = Page('docs/JUDGES.md')
TEXT = PAGE.text
BASIC = ('checklists', 'comparison', 'scripted', 'verdicts', 'tool_ranking')
COMMANDS = PAGE.blocks('bash')


def test_it_prints_what_it_says(capsys):
  exec('\n'.join(PAGE.code), {'__name__': '__main__'})
  assert capsys.readouterr().out == PAGE.printed


def test_the_config_fits_together(tmp_path):
  PAGE.put(tmp_path)
  c = config_file.load(f'{tmp_path / "my_config.py"}:tiny,env=countdown')
  registry.check(base.wiring(c))
  assert c.hp.judge.function.path == 'my_judge:new_call'


def test_the_other_commands_name_configs_that_fit_together():
  for command in (COMMANDS[0], *COMMANDS[2:4]):
    config, *fields = re.findall(r'--config[=.](\S+)', command)
    c = config_file.load(config)
    changes = dict(field.split('=') for field in fields)
    config_file.change(c, {p: ast.literal_eval(x) for p, x in changes.items()})
    registry.check(base.wiring(c))
    assert c.judge


def test_every_judge_limit_and_count_is_on_the_page():
  judges = {name for name in registry.names('judge') if is_basic(name)}
  rows = set(
    re.findall(r'^\| `(\w+)` \| (?:turn|trajectory|group)', TEXT, re.M)
  )
  assert rows | {'function', 'column'} == judges
  for name in declared():
    section, _, field = name.partition('.')
    if section == 'judging' and field != 'threads':
      assert f'`{field}`' in TEXT or f'`judging.{field}`' in TEXT
  for name in panel.COUNTS:
    assert f'`{name}`' in TEXT
  for name in item.Item._fields:
    assert re.search(rf'^\| .*`{name}`', TEXT, re.M)


def is_basic(name):
  module = registry.get('judge', name).f.__module__
  return module.removeprefix('agentrl.judge.') in BASIC


@pytest.mark.nightly
def test_its_command_trains(tmp_path):
  PAGE.put(tmp_path)
  start, *words = shlex.split(COMMANDS[1])
  assert (start, words.pop(0)) == ('PYTHONPATH=.', 'python')
  few = [
    '--config.steps=2',
    '--config.sft.steps=2',
    '--config.eval.episodes=32',
  ]
  path = os.pathsep.join([str(tmp_path), str(ROOT)])
  done = subprocess.run(
    [sys.executable, *words, *few],
    cwd=tmp_path,
    env=os.environ | {'JAX_PLATFORMS': 'cpu', 'PYTHONPATH': path},
    capture_output=True,
    text=True,
    check=False,
  )
  assert done.returncode == 0, done.stdout + done.stderr
  assert (tmp_path / 'runs/mine/judges').is_dir()
