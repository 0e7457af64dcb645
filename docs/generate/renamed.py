"""Writes docs/RENAMED.md: old and new names of config fields and metrics.

python -m docs.generate.renamed
"""

from agentrl import cli, renames

PAGE = 'docs/RENAMED.md'
_HEAD = """\
# Renamed

Made by `python -m docs.generate.renamed` from `agentrl/renames.py`; do not
edit it. A run folder written under the old names is migrated when it is read;
an old flag is refused with the new name.
"""


def page() -> str:
  values = {
    f'{field}={old!r}': f'{field}={new!r}'
    for field, words in renames.VALUES.items()
    for old, new in words.items()
  }
  return '\n'.join(
    [
      _HEAD,
      *_table('Config fields', renames.FIELDS | values),
      *_table('Metrics', renames.METRICS),
    ]
  )


def _table(title: str, names) -> list[str]:
  rows = [f'| `{old}` | `{new}` |' for old, new in names.items()]
  return [f'## {title}', '', '| old | new |', '|---|---|', *rows, '']


def main() -> None:
  with open(PAGE, 'w', encoding='utf-8') as f:
    f.write(page())
  print(f'written: {PAGE}')


if __name__ == '__main__':
  cli.run(main, required=())
