"""Counts the papers of a table that a config stands for, wholly or in part.

  python -m docs.generate.rows rows.tsv

The table has a line per paper with the columns `id`, `config` and `title`, set
apart by tabs. A paper has a config if there is one of that name, or a docstring
in configs/ names its title; it is half done while one of these has a paragraph
`Missing:`, the only place where a docstring may say so.
"""

import csv
import pathlib
import re
import sys
from collections.abc import Mapping, Sequence

from agentrl.run import config_file
from docs.generate import methods

LENGTH = 40  # letters of a title that are compared: tables cut long ones


def docstrings() -> dict[str, str]:
  """Returns the docstring of every method and every study, by name."""
  studies = sorted((config_file.FOLDER / 'studies').glob('[!_]*.py'))
  names = [*config_file.methods(), *(f'studies/{x.stem}' for x in studies)]
  modules = {x: config_file.load_module(f'configs/{x}.py') for x in names}
  return {name: module.__doc__ or '' for name, module in modules.items()}


def judge(
  rows: Sequence[Mapping[str, str]], docs: Mapping[str, str]
) -> dict[str, dict[str, str]]:
  """Sorts the rows with a config: {'stand': {id: names}, 'half done': ...}."""
  letters = {name: _letters(doc) for name, doc in docs.items()}
  out: dict[str, dict[str, str]] = {'stand': {}, 'half done': {}}
  for row in rows:
    title = _letters(row['title'])[:LENGTH]
    named = [name for name, doc in letters.items() if title in doc]
    named = named or [name for name in docs if name == row['config']]
    half = [x for x in named if methods.parse_docstring(docs[x]).missing]
    if named:
      out['half done' if half else 'stand'][row['id']] = ' '.join(half or named)
  return out


def _letters(text: str) -> str:
  return re.sub(r'[^a-z0-9]', '', text.lower())


def main(path: str) -> None:
  text = pathlib.Path(path).read_text(encoding='utf-8')
  rows, docs = (
    list(csv.DictReader(text.splitlines(), delimiter='\t')),
    docstrings(),
  )
  found = judge(rows, docs)
  for kind, of in found.items():
    print(f'{len(of)} {kind}')
    for key, names in of.items():
      lacks = methods.parse_docstring(docs[names.split()[0]]).missing
      print(f'  {key}  {names}', *[f'lacks {lacks}'] * (kind != 'stand'))
  print(
    f'{len(rows) - sum(map(len, found.values()))} of {len(rows)} have no config'
  )


if __name__ == '__main__':
  main(*sys.argv[1:])
