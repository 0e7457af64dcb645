"""The notebooks are as they should be kept, and run from top to bottom."""

import ast
import importlib
import json
import os
import pathlib
import subprocess
import sys

import pytest

from docs.generate import notebooks
from tests import smollm2

ROOT = pathlib.Path(__file__).parents[2]
PATHS = sorted((ROOT / 'notebooks').glob('*.ipynb'))
OURS = ('agentrl', 'configs', 'experiments')
# Cells share one namespace, as in a kernel; an error tells its cell.
RUN = """
import json, sys
names = {'__name__': '__main__'}
with open(sys.argv[1], encoding='utf-8') as f:
  cells = json.load(f)['cells']
for i, cell in enumerate(cells):
  if cell['cell_type'] == 'code':
    text = ''.join(cell['source'])
    exec(compile(text, f'{sys.argv[1]}, cell {i}', 'exec'), names)
"""
# What a reader is to see.
SAID = {
  '1_first_rollout': ('rows that the model reads', 'largest difference'),
  '2_credit': ('GiGPO', 'Spearman'),
  '3_new_method': ("'minus_median'", 'is not registered', 'held-out success'),
  '4_checkpoint': ('chat template: True', '<|im_start|>', 'largest change'),
  '5_sharding': ('8 devices', 'in pieces of', '100.0% of the tokens'),
  '6_language_model': ('Paris', 'right answers to held-out sums'),
}
SETTINGS = {
  'JAX_PLATFORMS': 'cpu',
  'JAX_DISABLE_MOST_OPTIMIZATIONS': 'true',  # most of the time is compilation
  'XLA_FLAGS': '',  # of the tests, which have eight devices
  'MPLBACKEND': 'agg',
  'HF_HUB_OFFLINE': '1',
}
DAILY = ('2_credit',)  # the others run nightly
PRETRAINED = ('6_language_model',)  # need the package of its weights
each = pytest.mark.parametrize('path', PATHS, ids=lambda path: path.stem)


def marks(name: str) -> list:
  """Returns when a notebook runs."""
  often = pytest.mark.slow if name in DAILY else pytest.mark.nightly
  return [often, smollm2.installed] if name in PRETRAINED else [often]


def code(path: pathlib.Path) -> list[str]:
  cells = json.loads(path.read_text(encoding='utf-8'))['cells']
  kept = [cell for cell in cells if cell['cell_type'] == 'code']
  return [''.join(cell['source']) for cell in kept]


def test_none_is_forgotten():
  assert [path.stem for path in PATHS] == sorted(SAID)


@each
def test_outputs_are_those_of_the_code(path):
  notebook = json.loads(path.read_text(encoding='utf-8'))
  assert notebook['nbformat'] == 4
  cells = [x for x in notebook['cells'] if x['cell_type'] == 'code']
  outputs = [x for cell in cells for x in cell['outputs']]
  counts = [cell['execution_count'] for cell in cells]
  assert notebook['metadata'].get('executed') == notebooks.digest(notebook), (
    f'run `python -m docs.generate.notebooks --notebooks={path.stem}`'
  )
  assert counts == list(range(1, len(cells) + 1))
  text = ''.join(''.join(x.get('text', ())) for x in outputs)
  assert [words for words in SAID[path.stem] if words not in text] == []
  draws = any('plt.show()' in ''.join(cell['source']) for cell in cells)
  assert draws == any('image/png' in x.get('data', {}) for x in outputs)


def test_cells_share_names_and_keep_what_they_print_and_draw():
  cell = {'cell_type': 'code', 'execution_count': None, 'outputs': []}
  sources = (
    ['x = 2\n'],
    ['print(x)\n', 'from matplotlib import pyplot as plt\n', 'plt.plot([x])'],
  )
  cells = [cell | {'source': source} for source in sources]
  notebook = notebooks.execute({'cells': cells, 'metadata': {}})
  first, second = notebook['cells']
  assert (first['outputs'], second['outputs'][0]['text']) == ([], ['2\n'])
  assert second['outputs'][1]['data']['image/png'].startswith('iVBOR')
  assert notebook['metadata']['executed'] == notebooks.digest(notebook)


@each
def test_the_first_cell_is_the_same_everywhere(path):
  first = code(path)[0]
  assert first == code(PATHS[0])[0]
  assert "if 'google.colab' in sys.modules" in first


@each
def test_what_is_imported_exists(path):
  found = 0
  for text in code(path):
    for node in ast.walk(ast.parse(text)):
      names = []
      if isinstance(node, ast.Import):
        names = [(alias.name, None) for alias in node.names]
      elif isinstance(node, ast.ImportFrom):
        names = [(node.module, alias.name) for alias in node.names]
      for module, name in names:
        if module.split('.')[0] in OURS:
          exists(module, name)
          found += 1
  assert found


def exists(module: str, name: str | None) -> None:
  there = importlib.import_module(module)
  if name and name not in vars(there):
    importlib.import_module(f'{module}.{name}')


@pytest.mark.parametrize(
  'path',
  [pytest.param(x, marks=marks(x.stem), id=x.stem) for x in PATHS],
)
def test_it_runs(path):
  done = subprocess.run(
    [sys.executable, '-c', RUN, path.name],
    cwd=path.parent,
    env=os.environ | SETTINGS,
    capture_output=True,
    text=True,
    check=False,
  )
  assert done.returncode == 0, done.stdout + done.stderr
  for words in SAID[path.stem]:
    assert words in done.stdout, done.stdout
