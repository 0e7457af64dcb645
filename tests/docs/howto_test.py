"""Commands of docs/howto and docs/RUNS.md name configs, flags and fields."""

import pathlib
import re

import pytest

from agentrl import registry
from agentrl.configs import base
from agentrl.run import config_file
from agentrl.run.play import collect
from agentrl.testing import batches

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [*sorted((ROOT / 'docs/howto').glob('*.md')), ROOT / 'docs/RUNS.md']
TRAIN = re.compile(r'experiments\.(?:train|sft|plan)\b((?:[^\n]|\\\n)*)')
SHOWN = re.compile(r'^`(\w+\.py)`\n\n```python\n(.*?)```', re.M | re.DOTALL)


def commands():
  """Yields (page, words) of every command that takes a config."""
  for page in PAGES:
    text = page.read_text(encoding='utf-8')
    for block in re.findall(r'^```bash\n(.*?)^```', text, re.M | re.DOTALL):
      for words in TRAIN.findall(block.replace('\\\n', ' ')):
        if '--config=' in words:
          yield pytest.param(page, words, id=f'{page.stem} {words[:40]}')


@pytest.mark.parametrize(('page', 'words'), list(commands()))
def test_a_command_names_fields_that_exist(page, words, tmp_path):
  name = re.search(r'--config=(\S+)', words)[1]
  name = re.sub(r',?(?:checkpoint|lora)=[^\s,]+', '', name).replace(':,', ':')
  for file, code in SHOWN.findall(page.read_text(encoding='utf-8')):
    if name.startswith(file):
      (tmp_path / file).write_text(code, encoding='utf-8')
      name = f'{tmp_path}/{name}'
  c = config_file.load(name)
  for path in re.findall(r'--config\.([\w.]+)=', words):
    node = c
    for part in path.split('.'):
      assert part in node or part == 'sft', f'{path} of {words}'
      node = node[part]


def test_configs_it_shows_fit_together(tmp_path):
  shown = {
    name: code
    for page in PAGES
    for name, code in SHOWN.findall(page.read_text(encoding='utf-8'))
    if 'get_config' in code
  }
  assert set(shown) == {'my_kl.py', 'my_reward.py'}
  for name, code in shown.items():
    (tmp_path / name).write_text(code, encoding='utf-8')
    w = base.wiring(config_file.load(f'{tmp_path}/{name}:tiny'))
    registry.check(w)
    batch = batches.lay(batches.story()).batch
    terms = {'env': batch.turns.reward, 'tokens': batch.turns.valid * 1.0}
    batch = batch.replace(turns=batch.turns.replace(terms=terms))
    assert collect.score(w, batch).turns.reward.shape == batch.turns.valid.shape
