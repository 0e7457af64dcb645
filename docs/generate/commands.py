"""Writes docs/COMMANDS.md: every command, its docstring and its flags.

  python -m docs.generate.commands

Mains define the same flags, so each is imported, read and forgotten in turn.
"""

import importlib
import inspect
import os
import pkgutil
import re
import types
from collections.abc import Iterator
from unittest import mock

from absl import flags

from agentrl import cli, experiments
from docs.generate import config

PAGE = 'docs/COMMANDS.md'
_HEAD = """\
# Commands

Made by `python -m docs.generate.commands` from the mains in `experiments/`; do
not edit it.

Flags are written `--name=value`, and switches `--name` or `--noname`. With
`--config`, every field of the config is a flag as well
([CONFIG.md](CONFIG.md)). Installed from a wheel, `agentrl NAME` stands for
`python -m experiments.NAME`. A mistake ends in one sentence and exit code 2, a
refusal of the machine (a full disk) in one sentence and exit code 1.
"""


def page() -> str:
  """The whole page, in alphabetical order."""
  names = sorted(x.name for x in pkgutil.iter_modules(experiments.__path__))
  mains = {name: _main(name) for name in names}
  rows = [
    config.row(f'[{name}](#{name})', inspect.getdoc(module).partition('\n')[0])
    for name, (module, _) in mains.items()
  ]
  lines = [_HEAD, '| command | |', '|---|---|', *rows, '']
  for name, (module, own) in mains.items():
    lines += [
      f'## {name}',
      '',
      *_text(inspect.getdoc(module)),
      *_table(module, own),
    ]
  return '\n'.join(lines)


def _main(name: str) -> tuple[types.ModuleType, dict[str, flags.Flag]]:
  """The module of a command, and the flags it defines."""
  values = flags.FLAGS
  before = set(values)
  # A default that is the number of cores differs from machine to machine.
  with mock.patch.object(os, 'cpu_count', return_value=None):
    module = importlib.import_module(f'{experiments.__name__}.{name}')
  new = {flag: values[flag] for flag in values if flag not in before}
  own = ('agentrl.experiments', 'docs.')
  new = {
    flag: x
    for flag, x in new.items()
    if values.find_module_defining_flag(flag).startswith(own)
  }
  for flag in new:
    delattr(values, flag)
  return module, new


def _text(doc: str) -> Iterator[str]:
  """The docstring, its commands as code."""
  for paragraph in doc.split('\n\n'):
    text = inspect.cleandoc(paragraph)
    if text.startswith('python -m'):
      text = f'```bash\n{re.sub(" {2,}--", " --", text)}\n```'
    yield from (text, '')


def _table(
  module: types.ModuleType, own: dict[str, flags.Flag]
) -> Iterator[str]:
  if not own:
    return
  required = re.search(r'required=\(([^)]*)\)', inspect.getsource(module))
  yield from ('| flag | default | meaning |', '|---|---|---|')
  for flag, x in own.items():
    meaning = re.sub(
      '^<.*?>: |; repeat this option.*', '', ' '.join(x.help.split())
    )
    if isinstance(x, flags.EnumFlag):
      meaning += f' One of {", ".join(x.parser.enum_values)}.'
    default = '' if x.default in (None, '', []) else f'`{x.default}`'
    if required and f"'{flag}'" in required[1]:
      default = 'required'
    yield config.row(f'`--{flag}`', default, meaning)
  yield ''


def main() -> None:
  text = page()
  with open(PAGE, 'w', encoding='utf-8') as f:
    f.write(text)
  print(f'written: {PAGE}')


if __name__ == '__main__':
  cli.run(main, required=())
