"""Writes docs/CONFIG.md: every field of a config and every hyper-parameter.

  python -m docs.generate.config

All of it is read from what configs/, the pieces and the families of
environments declare; `--help` lists the fields of one config the same way.
"""

import inspect
import re
from collections.abc import Iterator, Mapping

from ml_collections import ConfigDict

from agentrl import cli, domain, registry
from agentrl.configs import base, envs
from agentrl.domain import Field
from agentrl.env import base as env_base

PAGE = 'docs/CONFIG.md'
_HEAD = """\
# Config

Made by `python -m docs.generate.config` from what `configs/`, the pieces
and the environments declare; do not edit it.

Every field is a flag: `--config=configs/oprl.py:tiny --config.steps=50`. A
value outside its range ends in one sentence before anything is compiled.
Numbers are finite in float32 where inf is not named, and whole ones fit an
int32. `*` is a name that the config chooses. `--help` after a config lists its
fields with their values.
"""


def page() -> str:
  """The whole page."""
  sections: dict[str, dict[str, Field]] = {}
  for path, field in (base.FIELDS | base.OPEN).items():
    sections.setdefault(_section(path), {})[path] = field
  lines = [_HEAD]
  for name, fields in sections.items():
    lines += [f'## {name}', '', *_table(fields), '']
  lines += ['## env', '', *_table(_below('env', envs.TASKS)), '']
  for name, fields in envs.ENV.items():
    lines += [f'### {name}', '', *_table(_below('env', fields)), '']
  for name in env_base.FAMILIES:
    c = ConfigDict({'env': {'name': name}})
    own = {k: f for k, f in envs.declared(c).items() if k not in envs.TASKS}
    lines += [f'### {name}', '', *_table(_below('env', own)), '']
  return '\n'.join([*lines, *_pieces()])


def _section(path: str) -> str:
  """The part of the page that a field stands in."""
  return path.partition('.')[0] if '.' in path else 'the run and its slots'


def _below(section: str, fields: Mapping[str, Field]) -> dict[str, Field]:
  return {f'{section}.{name}': field for name, field in fields.items()}


def _table(fields: Mapping[str, Field]) -> Iterator[str]:
  yield '| field | default | what it may be | meaning |'
  yield '|---|---|---|---|'
  for path, (default, of, meaning) in fields.items():
    yield _row(f'`{path}`', f'`{default!r}`', _words(of), meaning)


def _pieces() -> Iterator[str]:
  yield '## hp'
  yield ''
  yield (
    'Hyper-parameters: `hp.<scope>.<piece>.<name>`. The scope is the stream or'
    ' loss term that names the piece, else its slot.'
  )
  for slot in registry.SLOTS:
    with_some = [
      piece
      for piece in (registry.get(slot, name) for name in registry.names(slot))
      if piece.defaults and piece.f.__module__.startswith('agentrl.')
    ]
    if with_some:
      yield from ('', f'### {slot}', '')
      yield '| piece | hyper-parameter | default | what it may be | meaning |'
      yield '|---|---|---|---|---|'
    for piece in with_some:
      meanings, first = _arguments(piece.f), _first_line(piece.f)
      for name, default in piece.defaults.items():
        yield _row(
          f'`{piece.name}`',
          f'`{name}`',
          f'`{default!r}`',
          _words(piece.domains.get(name)),
          meanings.get(name, first),
        )
  yield ''


def _first_line(f) -> str:
  return (inspect.getdoc(f) or '').partition('\n')[0]


def _arguments(f) -> dict[str, str]:
  """The meanings that a docstring gives of its arguments, by name."""
  _, _, text = (inspect.getdoc(f) or '').partition('\nArgs')
  found = re.findall(r'^  (\w[\w, ]*): (.*(?:\n {4,}.*)*)', text, re.MULTILINE)
  return {
    name: ' '.join(meaning.split())
    for names, meaning in found
    for name in names.split(', ')
  }


def _words(of: domain.Domain | None) -> str:
  return of.explain() if of else 'anything'


def _row(*cells: str) -> str:
  return f'| {" | ".join(x.replace("|", chr(92) + "|") for x in cells)} |'


def main() -> None:
  with open(PAGE, 'w', encoding='utf-8') as f:
    f.write(page())
  print(f'written: {PAGE}')


if __name__ == '__main__':
  cli.run(main, required=())
