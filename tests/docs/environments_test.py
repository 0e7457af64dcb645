"""docs/ENVIRONMENTS.md is run as it stands, and names what there is."""

import importlib
import json
import pathlib
import re
import sys

import pytest

from agentrl.configs import envs
from agentrl.env import base
from agentrl.env.files import jsonl
from agentrl.env.worlds import math_python, search_questions
from agentrl.env.worlds.shop import catalogue
from agentrl.run import build, config_file
from agentrl.run.play import jit_env
from agentrl.text import tokenizer
from docs.generate import worlds

ROOT = pathlib.Path(__file__).parents[2]
TEXT = (ROOT / 'docs/ENVIRONMENTS.md').read_text(encoding='utf-8')
CODE = re.findall(r'```python\n(.*?)```', TEXT, re.DOTALL)
(GUESS,) = (code for code in CODE if 'class Guess:' in code)
(DIAL,) = (code for code in CODE if 'class Dial:' in code)
PRINTED = re.findall(r'^prints\n\n```\n(.*?)```', TEXT, re.DOTALL | re.M)


def test_it_prints_what_it_says(capsys):
  exec(''.join(CODE), {'__name__': '__main__'})
  assert capsys.readouterr().out == ''.join(PRINTED)


def test_the_readme_shows_the_same_one():
  readme = (ROOT / 'README.md').read_text(encoding='utf-8')
  shown = re.search(r'<!-- world -->\n```python\n(.*?)```', readme, re.DOTALL)
  assert shown[1] == GUESS


def test_words_it_lists_are_those_of_the_tokenizer():
  shown = re.search(r'each of which is one token:\n`([^`]*)`', TEXT)
  assert shown[1].split() == list(tokenizer.WORDS)


def test_an_environment_is_short():
  assert len([line for line in GUESS.splitlines() if line]) <= 40


@pytest.fixture
def dial(tmp_path, monkeypatch):
  """The file of the page, in a folder that runs are started from."""
  (tmp_path / 'dial.py').write_text(DIAL, encoding='utf-8')
  monkeypatch.chdir(tmp_path)
  monkeypatch.syspath_prepend(str(tmp_path))
  yield
  sys.modules.pop('dial', None)


def test_an_environment_inside_jit_is_named_and_nothing_else(dial):
  c = config_file.load('grpo:tiny,env=dial:Dial')
  c.env.update(dict(size=50, train=8, test=4))
  s = build.experiment(c)
  assert (s.on_host, s.world.env.size, len(s.train)) == (False, 50, 8)
  assert 'term:progress' in s.algorithm.spec.gives


def test_mistakes_end_in_the_sentences_it_shows(dial, monkeypatch):
  shown = dict(re.findall(r'^\| ([\w` ]+) \| `(.*)` \|$', TEXT, re.M))
  family = importlib.import_module('dial').Dial

  def message(**changes):
    with monkeypatch.context() as patch:
      for name, value in changes.items():
        patch.setattr(family, name, value)
      c = config_file.load('grpo:tiny,env=dial:Dial')
      with pytest.raises(ValueError) as error:
        build.experiment(c)
    return str(error.value)

  def step(self, state, action, key):
    return (state, action) if action < 0 else None

  def score(self, state):
    return state.at

  def info(self, before, action, after):
    return {'near': self.score(after)}

  step.__qualname__, score.__qualname__ = 'Dial.step', 'Dial.score'
  info.__qualname__ = 'Dial.info'
  assert message(step=step) == shown['Python where arrays are needed']
  assert message(score=score) == shown['another shape or dtype']
  assert message(info=info) == shown['columns that `info` lacks']


def test_legends_and_observation_are_those_of_the_code():
  shown = dict(
    re.findall(r'<!-- ([\w ]+) -->\n```\n(.*?)\n```', TEXT, re.DOTALL)
  )
  assert shown.pop('first observation') + '\n' == worlds.first_observation(
    'sokoban'
  )
  assert set(shown) == set(envs.JITTED)
  for name, legend in shown.items():
    _, env = jit_env.environment(config_file.load(f'grpo:env={name}'))
    assert env.legend == legend
  assert (ROOT / worlds.PICTURE).is_file()


def test_the_table_has_all_families_and_their_settings():
  rows = re.findall(r'^\| `(\w+)` \| [^|]* \| ([^|]*) \| (\w+) \|', TEXT, re.M)
  assert {row[0] for row in rows} == set(base.FAMILIES)
  for name, fields, worker in rows:
    family = base.find(name)
    assert re.findall(r'`(\w+)`', fields) == list(base.settings(family))
    assert family().worker == worker


def test_lines_it_shows_are_read():
  rows = re.findall(r'^\| `(\w+)` `(\w+)` \| `(\{.*?\})`', TEXT, re.M)
  lines = {(name, field): json.loads(line) for name, field, line in rows}
  assert len(lines) == 5
  assert jsonl._row(lines['jsonl', 'path'])
  assert math_python._task(lines['math_python', 'path'])
  assert search_questions._question(lines['search_questions', 'questions'])
  assert set(lines['search_questions', 'corpus']) == {'title', 'text'}
  assert catalogue._product(lines['shop', 'catalogue'])


def test_examples_in_errors_are_read():
  assert jsonl._row(json.loads(jsonl.EXAMPLE))
  assert math_python._task(json.loads(math_python.EXAMPLE))
  assert search_questions._question(json.loads(search_questions.EXAMPLE))
  assert catalogue._product(json.loads(catalogue.EXAMPLE))
