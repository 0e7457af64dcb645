"""docs/ENVIRONMENTS.md is run as it stands, and names what there is."""

import importlib
import json
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
from tests.docs.pages import ROOT, Page

PAGE = Page('docs/ENVIRONMENTS.md')
TEXT = PAGE.text
(GUESS,) = (code for code in PAGE.code if 'class Guess:' in code)
(DIAL,) = (code for code in PAGE.code if 'class Dial:' in code)


def test_it_prints_what_it_says(capsys):
  exec(''.join(PAGE.code), {'__name__': '__main__'})
  assert capsys.readouterr().out == PAGE.printed


def test_the_readme_shows_the_same_one():
  readme = Page('README.md').text
  shown = re.search(r'<!-- world -->\n```python\n(.*?)```', readme, re.DOTALL)
  assert shown[1] == GUESS


def test_words_it_lists_are_those_of_the_tokenizer():
  shown = re.search(r'each of which is one token:\n`([^`]*)`', TEXT)
  assert shown[1].split() == list(tokenizer.WORDS)


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


def test_lines_that_it_and_errors_show_are_read():
  rows = re.findall(r'^\| `(\w+)` `(\w+)` \| `(\{.*?\})`', TEXT, re.M)
  lines = {(name, field): json.loads(line) for name, field, line in rows}
  assert len(lines) == 5
  assert set(lines['search_questions', 'corpus']) == {'title', 'text'}
  for read, shown, example in (
    (jsonl._row, ('jsonl', 'path'), jsonl.EXAMPLE),
    (math_python._task, ('math_python', 'path'), math_python.EXAMPLE),
    (
      search_questions._question,
      ('search_questions', 'questions'),
      search_questions.EXAMPLE,
    ),
    (catalogue._product, ('shop', 'catalogue'), catalogue.EXAMPLE),
  ):
    assert read(lines[shown])
    assert read(json.loads(example))
