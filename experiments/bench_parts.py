"""Measures an accelerator in parts of some minutes, which resume.

  python -m experiments.bench_parts --out=bench
  python -m experiments.bench_parts --out=bench --seconds=300

Each part is a process of its own. What ended is not measured again: call it
until no part is left. The first three parts give the figures that
docs/PERFORMANCE.md lacks. A table of what is done is printed at the end.
"""

from agentrl import cli
from agentrl.domain import Path, Real

_OUT = cli.flag('out', None, Path(empty=False), 'Folder of the figures')
_SECONDS = cli.flag('seconds', 500.0, Real(1), 'Limit of a part')


def main() -> None:
  from agentrl.lab.bench import parts

  left = parts.run(_OUT.value, _SECONDS.value)
  for line in parts.table(_OUT.value):
    print(line)
  if left:
    cli.fail(f'not measured: {", ".join(left)}; call it again', cli.MACHINE)


if __name__ == '__main__':
  cli.run(main, required=('out',))
