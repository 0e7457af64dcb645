"""Writes docs/api: the library's public functions, from their docstrings.

python -m docs.generate.api
"""

import importlib
import inspect
import pathlib
import types

import agentrl

FOLDER = pathlib.Path('docs/api')
# Page -> the module whose __all__ it shows.
PAGES = {
  'agentrl': 'agentrl',
  'ops': 'agentrl.ops',
  'testing': 'agentrl.testing.batches',
}
WIDTH = 80
_MADE = 'Made by `python -m docs.generate.api` from docstrings; do not edit it.'


def pages() -> dict[str, str]:
  """The text of every page, by its file name."""
  out = {f'{name}.md': page(module) for name, module in PAGES.items()}
  lines = [f'- [`{module}`]({name}.md)' for name, module in PAGES.items()]
  head = ['# API', '', _MADE, f'Version {agentrl.__version__}.', '']
  return out | {'README.md': '\n'.join([*head, *lines, ''])}


def page(name: str) -> str:
  """A module: its docstring, and every public name."""
  module = importlib.import_module(name)
  lines = [f'# {name}', '', _MADE, '', *_text(module)]
  for public in _public(module):
    x = getattr(module, public)
    if not isinstance(x, types.ModuleType):
      lines += [f'## {public}', '', *_entry(public, x)]
  return '\n'.join(lines).rstrip() + '\n'


def _public(module) -> list[str]:
  """__all__, or the functions and classes that the module itself defines."""
  if '__all__' in vars(module):
    return sorted(module.__all__)
  return sorted(
    name
    for name, x in vars(module).items()
    if inspect.getmodule(x) is module
    and not name.startswith('_')
    and (inspect.isclass(x) or inspect.isfunction(x))
  )


def _entry(name: str, x) -> list[str]:
  """Signature, docstring and, of a class, its public functions."""
  if not callable(x):
    return [f'`{x!r}`', '']
  lines = [*_signature(name, x), *_text(x)]
  if inspect.isclass(x):
    for key, f in sorted(vars(x).items()):
      f = f.__func__ if isinstance(f, classmethod) else f
      own = inspect.isfunction(f) and f.__module__ == x.__module__
      if own and not key.startswith('_') and f.__doc__:
        lines += [f'### {name}.{key}', '', *_signature(key, f), *_text(f)]
  return lines


def _signature(name: str, x) -> list[str]:
  arguments = inspect.signature(x).parameters.values()
  words, bare = [], False
  for p in arguments:
    if p.kind is p.KEYWORD_ONLY and not bare:
      words, bare = [*words, '*'], True
    if p.name not in ('self', 'cls'):
      default = '' if p.default is p.empty else f'={_value(p.default)}'
      words.append(f'{p.name}{default}')
  line = ', '.join(words)
  code = [f'{name}({line})']
  if len(code[0]) > WIDTH:  # broken as the formatter does it
    short = len(line) + 2 <= WIDTH
    inner = [f'  {line}'] if short else [f'  {word},' for word in words]
    code = [f'{name}(', *inner, ')']
  return ['```python', *code, '```', '']


def _value(x) -> str:
  """A default, without addresses that differ from run to run."""
  text = repr(x)
  return '...' if ' at 0x' in text or '<' in text else text


def _text(x) -> list[str]:
  return ['```text', inspect.getdoc(x) or '', '```', '']


def main() -> None:
  FOLDER.mkdir(exist_ok=True)
  for name, text in pages().items():
    (FOLDER / name).write_text(text, encoding='utf-8')


if __name__ == '__main__':
  main()
