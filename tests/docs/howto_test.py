"""Commands of docs/howto and docs/RUNS.md name configs, flags and fields."""

import ast
import importlib
import re
import sys

import pytest

from agentrl import registry
from agentrl.configs import base
from agentrl.run import config_file
from agentrl.run.check import validate
from agentrl.run.play import collect
from agentrl.testing import batches
from tests.docs.pages import ROOT, Page

PATHS = [*(ROOT / 'docs/howto').glob('*.md'), ROOT / 'docs/RUNS.md']
PAGES = {x.stem: Page(x) for x in sorted(PATHS)}
TRAIN = re.compile(r'experiments\.(?:train|sft|plan)\b((?:[^\n]|\\\n)*)')
REWARD = Page('docs/howto/reward.md')


def commands():
  """Yields (page, words) of every command that takes a config."""
  for name, page in PAGES.items():
    for block in page.blocks('bash'):
      for words in TRAIN.findall(block.replace('\\\n', ' ')):
        if '--config=' in words:
          yield pytest.param(page, words, id=f'{name} {words[:40]}')


@pytest.mark.parametrize(('page', 'words'), list(commands()))
def test_a_command_names_fields_that_exist(
  page, words, tmp_path, registry_of_test
):
  name = re.search(r'--config=(\S+)', words)[1]
  name = re.sub(r',?(?:checkpoint|lora)=[^\s,]+', '', name).replace(':,', ':')
  for file, code in page.files.items():
    if name.startswith(file):
      (tmp_path / file).write_text(code, encoding='utf-8')
      name = f'{tmp_path}/{name}'
  c = config_file.load(name)
  for path, value in re.findall(r'--config\.(\w+)="(\(.*?\))"', words):
    config_file.change(c, {path: ast.literal_eval(value)})
    config_file.fill(c)
  for path in re.findall(r'--config\.([\w.]+)=', words):
    node = c
    for part in path.split('.'):
      assert part in node or part == 'sft', f'{path} of {words}'
      node = node[part]


def test_the_test_it_shows_passes(tmp_path, monkeypatch, registry_of_test):
  REWARD.put(tmp_path)
  monkeypatch.syspath_prepend(str(tmp_path))
  shown = importlib.import_module('test_my_reward')
  tests = [f for name, f in vars(shown).items() if name.startswith('test_')]
  assert len(tests) == 2
  for test in tests:
    test()
  for name in ('my_reward', 'test_my_reward'):
    monkeypatch.delitem(sys.modules, name)


def test_errors_it_shows_are_raised(tmp_path, registry_of_test):
  row = r'^\| ([\w ]+) \| `(.*?)(?: \.\.\.)?` \|$'
  shown = dict(re.findall(row, REWARD.text, re.M))
  code = REWARD.files['my_reward.py']
  needs = "needs=('term:tokens',)"
  last = r'return at_last_turn\((.*), x\.turns\)'
  wrong = {
    'a term that is not declared': code.replace(needs, 'needs=()').replace(
      "['tokens']", "['tokenz']"
    ),
    'a term that nothing gives': code.replace('term:tokens', 'term:tokenz'),
    'one number for the batch': re.sub(last, r'return (\1).sum()', code),
    'a value outside its domain': code.replace(' = 0.01', ' = -1.0'),
    'a name that is not registered': code.replace("'short', 'quick'", "'shrt'"),
  }
  assert set(wrong) == set(shown)
  for i, (what, text) in enumerate(wrong.items()):
    file = tmp_path / f'wrong_{i}.py'
    file.write_text(text, encoding='utf-8')
    with pytest.raises(ValueError) as error:
      validate.config(config_file.load(f'{file}:tiny'))
    assert shown[what] in str(error.value)


def test_configs_it_shows_fit_together(tmp_path, registry_of_test):
  shown = {
    name: code
    for page in PAGES.values()
    for name, code in page.files.items()
    if 'get_config' in code
  }
  assert set(shown) == {'my_kl.py', 'my_pairs.py', 'my_reward.py'}
  for name, code in shown.items():
    (tmp_path / name).write_text(code, encoding='utf-8')
    w = base.wiring(config_file.load(f'{tmp_path}/{name}:tiny'))
    registry.check(w)
    batch = batches.lay(batches.story()).batch
    terms = {'env': batch.turns.reward, 'tokens': batch.turns.valid * 1.0}
    batch = batch.replace(turns=batch.turns.replace(terms=terms))
    assert collect.score(w, batch).turns.reward.shape == batch.turns.valid.shape
