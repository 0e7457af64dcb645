"""Writes docs/CONFIG.md: every field of a config.

  python -m docs.generate.config

All of it is read from what configs/ and the families of environments declare;
`--help` lists the fields of one config the same way.
"""

from collections.abc import Iterator, Mapping

from agentrl import cli, domain
from agentrl.configs import envs
from agentrl.configs.config import declared
from agentrl.configs.env_sections import EnvConfig
from agentrl.domain import Field
from agentrl.env import base as env_base

PAGE = 'docs/CONFIG.md'
_HEAD = """\
# Config

Made by `python -m docs.generate.config` from what `configs/config.py`,
`configs/sections.py`, `configs/*_sections.py` and the environments declare;
do not edit it.

Every field is a flag: `--config=configs/oprl.py:tiny --config.steps=50`. A
value outside its range ends in one sentence before anything is compiled.
Numbers are finite in float32 where inf is not named, and whole ones fit an
int32. `*` is a name that the config chooses. `--help` after a config lists its
fields with their values.
"""
_HYPER_PARAMETERS = """\
## schedule

`schedule.<path> = (shape, start, end, steps)` moves `coef.*`, a number of
`hp.*`, `role.*.lr` or `mix.*.weight` from start to end; 0 steps last to the end
of the run, and `agentrl/schedule.py` has the shapes. A stage of `stage.<name>`
holds what differs there from the rest of the config ([STAGES.md](STAGES.md)).

## hp

Hyper-parameters of components: `hp.<scope>.<component>.<name>`. The scope is
the stream or loss term that names the component, else its slot.
[COMPONENTS.md](COMPONENTS.md) lists them.
"""


def page() -> str:
  """The whole page."""
  sections: dict[str, dict[str, Field]] = {}
  for path, field in declared().items():
    name = path.partition('.')[0] if '.' in path else 'the run and its slots'
    sections.setdefault(name, {})[path] = field
  lines = [_HEAD]
  for name, fields in sections.items():
    lines += [f'## {name}', '', *_table(fields), '']
  tasks = domain.fields(EnvConfig)
  lines += ['## env', '', *_table(_below('env', tasks)), '']
  for name in (*envs.JITTED, *env_base.JIT_FAMILIES, *env_base.FAMILIES):
    fields = envs.declared(name)
    own = {k: f for k, f in fields.items() if k not in tasks or f != tasks[k]}
    own.pop('name', None)
    lines += [f'### {name}', '', *_table(_below('env', own)), '']
  return '\n'.join([*lines, _HYPER_PARAMETERS])


def _below(section: str, fields: Mapping[str, Field]) -> dict[str, Field]:
  return {f'{section}.{name}': field for name, field in fields.items()}


def _table(fields: Mapping[str, Field]) -> Iterator[str]:
  yield '| field | default | what it may be | meaning |'
  yield '|---|---|---|---|'
  for path, (default, of, meaning) in fields.items():
    yield row(f'`{path}`', f'`{default!r}`', domain_text(of), meaning)


def domain_text(of: domain.Domain | None) -> str:
  """What a value may be, in words."""
  return of.explain() if of else 'anything'


def row(*cells: str) -> str:
  """A row of a Markdown table."""
  return f'| {" | ".join(x.replace("|", chr(92) + "|") for x in cells)} |'


def main() -> None:
  with open(PAGE, 'w', encoding='utf-8') as f:
    f.write(page())
  print(f'written: {PAGE}')


if __name__ == '__main__':
  cli.run(main, required=())
