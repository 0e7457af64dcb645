"""Writes docs/COMPONENTS.md: every component that a method can name.

  python -m docs.generate.components

All of it is read from what components declare when they are registered.
"""

import importlib
import inspect
import re
from collections.abc import Iterator

from agentrl import cli, registry
from agentrl.configs import base  # noqa: F401  registers components
from agentrl.configs.config import declared
from docs.generate import config

PAGE = 'docs/COMPONENTS.md'
# Slot -> the config field that names components of it.
FIELDS = {slot: slot for slot in registry.SLOTS} | {
  'rollout': 'rollout.kind',
  'link': 'stream.*',
  'edit': 'mix.*.edits',
  'loss_aggregation': 'loss_aggregation.*',
}
_HEAD = """\
# Components

Made by `python -m docs.generate.components` from the registered functions; do
not edit it.

A method names components for every slot of the loop
([GLOSSARY.md](GLOSSARY.md)). A component *needs* what others *provide*; a
config in which something is missing is refused before anything is compiled.
`signal:x` is an array of the update, `term:x` and `column:x` are parts of a
turn ([BATCH.md](BATCH.md)), `output:x` is computed by a network, `role:x` is a
network, `target:x` is fitted by a critic, `span:x` is a part of a message,
`reading:x` is the same actions in another context. `{x}` stands for a
hyper-parameter, `*by` for a column for each of its names, and `term:*x` for a
term for each. [REWARDS.md](REWARDS.md) explains the rewards.

Hyper-parameters are set by `--config.hp.SCOPE.COMPONENT.NAME`. The scope is the
stream or loss term that names the component, else its slot.

Studies bring components of their own, in `agentrl/lab/papers`.
"""


def page() -> str:
  """The whole page, slot by slot in the order of the loop."""
  return '\n'.join(
    [_HEAD, *(x for slot in registry.SLOTS for x in _slot(slot))]
  )


def ours(slot: str) -> list[registry.Component]:
  """Components of the library, not of a study, a user or a test."""
  pieces = [registry.get(slot, name) for name in registry.names(slot)]
  places = ((x, x.f.__module__) for x in pieces)
  return [
    x
    for x, place in places
    if place.startswith('agentrl.') and not place.startswith('agentrl.lab.')
  ]


def papers(piece: registry.Component) -> list[str]:
  """The arXiv numbers of its docstring, or else of its module's."""
  module = importlib.import_module(piece.f.__module__)
  for text in (inspect.getdoc(piece.f), module.__doc__):
    if numbers := re.findall(r'\b\d{4}\.\d{5}\b', text or ''):
      return list(dict.fromkeys(numbers))
  return []


def _slot(slot: str) -> Iterator[str]:
  field = FIELDS[slot]
  meaning = (declared())[field].meaning
  yield from (f'## {slot}', '', f'`c.{field}`: {meaning}.', '')
  yield '| name | computes | paper | needs | provides |'
  yield '|---|---|---|---|---|'
  pieces = ours(slot)
  for x in pieces:
    links = (f'[{n}](https://arxiv.org/abs/{n})' for n in papers(x))
    path = x.f.__module__.replace('.', '/') + '.py'
    yield config.row(
      f'[`{x.name}`](../{path})',
      ' '.join((inspect.getdoc(x.f) or '').partition('\n\n')[0].split()),
      ', '.join(links),
      code(x.needs),
      code(x.gives),
    )
  yield ''
  if any(x.defaults for x in pieces):
    yield '| name | hyper-parameter | default | domain | meaning |'
    yield '|---|---|---|---|---|'
    for x in pieces:
      yield from hyper_parameters(x)
    yield ''


def hyper_parameters(piece: registry.Component) -> Iterator[str]:
  """Rows of a table: name, hyper-parameter, default, domain, meaning."""
  for name, default in piece.defaults.items():
    yield config.row(
      f'`{piece.name}`',
      f'`{name}`',
      f'`{default!r}`',
      config.domain_text(piece.domains.get(name)),
      piece.meanings[name],
    )


def code(names: tuple[str, ...]) -> str:
  """The names as code, a space between them."""
  return ' '.join(f'`{name}`' for name in names)


def main() -> None:
  with open(PAGE, 'w', encoding='utf-8') as f:
    f.write(page())
  print(f'written: {PAGE}')


if __name__ == '__main__':
  cli.run(main, required=())
