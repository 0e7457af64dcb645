"""Executes notebooks and stores what they print and draw.

  python -m docs.generate.notebooks                  # all of notebooks/
  python -m docs.generate.notebooks --notebooks=2_credit

Outputs carry a digest of the code that made them.
"""

import base64
import contextlib
import hashlib
import io
import json
import multiprocessing
import os
import pathlib
import sys
import tempfile

from absl import flags

from agentrl import cli

FOLDER = pathlib.Path('notebooks')
_ONLY = flags.DEFINE_list('notebooks', None, 'Notebooks; default: all.')


def digest(notebook: dict) -> str:
  """A digest of the code, in the order of its cells."""
  code = [x['source'] for x in notebook['cells'] if x['cell_type'] == 'code']
  return hashlib.sha256(json.dumps(code).encode()).hexdigest()[:16]


def execute(notebook: dict) -> dict:
  """The notebook with the outputs of its cells; they share one namespace."""
  from matplotlib import pyplot as plt

  names, cells, count = {'__name__': '__main__'}, [], 0
  for cell in notebook['cells']:
    if cell['cell_type'] == 'code':
      count += 1
      out = io.StringIO()
      code = compile(''.join(cell['source']), f'cell {count}', 'exec')
      with contextlib.redirect_stdout(out):
        exec(code, names)
      outputs = [_stream(out.getvalue())] if out.getvalue() else []
      outputs += [_image(plt.figure(i)) for i in plt.get_fignums()]
      plt.close('all')
      cell = cell | {'execution_count': count, 'outputs': outputs}
    cells.append(cell)
  metadata = notebook['metadata'] | {'executed': digest(notebook)}
  return notebook | {'cells': cells, 'metadata': metadata}


def _stream(text: str) -> dict:
  lines = text.replace(tempfile.gettempdir(), '/tmp').splitlines(keepends=True)
  return {'output_type': 'stream', 'name': 'stdout', 'text': lines}


def _image(figure) -> dict:
  file = io.BytesIO()
  figure.savefig(file, format='png', dpi=80, bbox_inches='tight')
  data = {'image/png': base64.b64encode(file.getvalue()).decode()}
  return {'output_type': 'display_data', 'metadata': {}, 'data': data}


def update(name: str) -> None:
  """Executes a notebook and stores it with its outputs."""
  path = (FOLDER / f'{name}.ipynb').absolute()
  os.environ['MPLBACKEND'] = 'agg'
  sys.argv[:] = ['ipykernel_launcher.py']  # as a kernel has it
  os.chdir(FOLDER)
  notebook = execute(json.loads(path.read_text(encoding='utf-8')))
  text = json.dumps(notebook, indent=1, ensure_ascii=False) + '\n'
  path.write_text(text, encoding='utf-8')
  print(f'written: {path.name}', flush=True)


def main() -> None:
  names = sorted(path.stem for path in FOLDER.glob('*.ipynb'))
  for name in _ONLY.value or names:
    if name not in names:
      raise ValueError(f'--notebooks={name}: choose from {", ".join(names)}')
    # Each in a process of its own: one sets the number of devices.
    child = multiprocessing.get_context('spawn').Process(
      target=update, args=(name,)
    )
    child.start()
    child.join()
    if child.exitcode:
      raise ValueError(f'{FOLDER}/{name}.ipynb failed, as shown above')


if __name__ == '__main__':
  cli.run(main)
