"""Writes docs/api: the library's public functions, from their docstrings.

python -m docs.generate.api
"""

import enum
import importlib
import inspect
import pathlib
import textwrap
import types

import agentrl
from agentrl import registry
from agentrl.configs import base  # noqa: F401  registers the components

FOLDER = pathlib.Path('docs/api')
# Page -> the module that it shows.
PAGES = {
  'agentrl': 'agentrl',
  'ops': 'agentrl.ops',
  'types': 'agentrl.types',
  'loop': 'agentrl.loop',
  'registry': 'agentrl.registry',
  'segment': 'agentrl.segment',
  'mesh': 'agentrl.mesh',
  'env': 'agentrl.env.base',
  'jit_env': 'agentrl.env.jit.base',
  'generator': 'agentrl.rollout.host',
  'signal': 'agentrl.signal.base',
  'memory': 'agentrl.memory.base',
  'judge': 'agentrl.judge.item',
  'testing': 'agentrl.testing.batches',
}
ONLY = {'agentrl.rollout.host': ('Generator',)}  # others: all that is public
WIDTH = 80
_MADE = 'Made by `python -m docs.generate.api` from docstrings; do not edit it.'


def pages() -> dict[str, str]:
  """The text of every page, by its file name."""
  out = {f'{name}.md': page(module) for name, module in PAGES.items()}
  out['slots.md'] = slots()
  lines = [f'- [`{module}`]({name}.md)' for name, module in PAGES.items()]
  lines.append('- [the inputs of every slot](slots.md)')
  head = ['# API', '', _MADE, f'Version {agentrl.__version__}.', '']
  return out | {'README.md': '\n'.join([*head, *lines, ''])}


def slots() -> str:
  """The arguments that components of each slot are called with."""
  lines = [
    '# Inputs of the slots',
    '',
    _MADE,
    '',
    'A component is a function of these arguments, and of hyper-parameters as'
    ' keywords.',
    '[`register`](registry.md#register) files it, [types](types.md) has the'
    ' records, and [COMPONENTS.md](../COMPONENTS.md) all that ship. A signal'
    ' returns a [`Signal`](signal.md), a memory a [`Memory`](memory.md).',
    '',
    '| slot | arguments | an example |',
    '|---|---|---|',
  ]
  for slot in registry.SLOTS:
    calls: dict[str, str] = {}
    for name in registry.names(slot):
      f = registry.get(slot, name).f
      if f.__module__.startswith('agentrl.'):
        calls.setdefault(_positional(f), f'`{f.__module__}.{f.__name__}`')
    lines += [
      f'| {slot} | `({x})` | {example} |' for x, example in calls.items()
    ]
  return '\n'.join([*lines, ''])


def _positional(f) -> str:
  """The arguments of a component that are no hyper-parameters."""
  arguments = inspect.signature(f).parameters.values()
  return ', '.join(
    p.name
    for p in arguments
    if p.kind is not p.KEYWORD_ONLY or p.default is p.empty
  )


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
  if module.__name__ in ONLY:
    return sorted(ONLY[module.__name__])
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
  if _is_read_as_source(x):
    return ['```python', *_source(x), '```', '']
  lines = [*_signature(name, x), *_text(x)]
  if fields := _fields(x):
    lines += ['```python', *fields, '```', '']
  if inspect.isclass(x):
    for key, f in sorted(vars(x).items()):
      f = f.__func__ if isinstance(f, classmethod) else f
      own = inspect.isfunction(f) and f.__module__ == x.__module__
      if own and not key.startswith('_') and f.__doc__:
        lines += [f'### {name}.{key}', '', *_signature(key, f), *_text(f)]
  return lines


def _is_read_as_source(x) -> bool:
  """Whether a class is clearest as it is written: protocols, enums, errors."""
  if not inspect.isclass(x):
    return False
  return issubclass(x, enum.Enum | Exception) or vars(x).get('_is_protocol')


def _source(x) -> list[str]:
  return textwrap.dedent(inspect.getsource(x)).rstrip().split('\n')


def _fields(x) -> list[str]:
  """The fields of a record as they are declared, with their comments."""
  if not (inspect.isclass(x) and '__annotations__' in vars(x)):
    return []
  body = _source(x)[1:]
  start = next((i for i, line in enumerate(body) if _declares(line, x)), None)
  if start is None:
    return []
  while body[start - 1].startswith('  #'):
    start -= 1
  ends = (
    i for i, line in enumerate(body) if line.startswith(('  def ', '  @'))
  )
  fields = body[start : next(ends, len(body))]
  return textwrap.dedent('\n'.join(fields)).rstrip().split('\n')


def _declares(line: str, x) -> bool:
  name, colon, _ = line.strip().partition(':')
  return bool(colon) and line.startswith('  ') and name in x.__annotations__


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
  return '...' if ' at 0x' in text or '<' in text or len(text) > 40 else text


def _text(x) -> list[str]:
  return ['```text', inspect.getdoc(x) or '', '```', '']


def main() -> None:
  FOLDER.mkdir(exist_ok=True)
  for name, text in pages().items():
    (FOLDER / name).write_text(text, encoding='utf-8')


if __name__ == '__main__':
  main()
