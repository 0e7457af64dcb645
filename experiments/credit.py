"""Holds every method's credit against the truth.

  python -m experiments.credit                     # all of configs/, seconds
  python -m experiments.credit --env=sokoban --methods=grpo,gigpo,oprl
  python -m experiments.credit --workdir=runs/oprl --warm=0

Prints a table and writes credit.json and credit.png into --out. The truth is
the exact advantage under random play (bifurcation), or how much nearer the
solver is to the end (sokoban). A method that needs what the environment lacks
is left out, and said so.
"""

import json
import os

import jax
from absl import flags

from agentrl import cli, domain
from agentrl.run import config_file
from agentrl.study import credit, credit_report

_METHODS = flags.DEFINE_list('methods', None, 'Configs; all where not given.')
_ENV = flags.DEFINE_enum(
  'env', 'bifurcation', list(credit.TRUTH), 'Where the policy plays.'
)
_WORKDIR = cli.flag(
  'workdir', '', domain.Path(), 'Run whose policy and environment are taken'
)
_OUT = cli.flag(
  'out', 'runs/credit', domain.Path(empty=False), 'Folder to write to'
)
_SIZE = {
  name: cli.flag(name, credit.Size()._asdict()[name], of, f'Size.{name}')
  for name, of in domain.declared(credit.Size).items()
}


def main() -> None:
  # Programs are small and run a few times: most of the time is compilation.
  jax.config.update('jax_disable_most_optimizations', True)
  size = credit.Size(**{name: flag.value for name, flag in _SIZE.items()})
  names = _METHODS.value or config_file.methods()
  report, credits, played = credit.measure(
    names, _ENV.value, size, _WORKDIR.value
  )
  print(credit_report.table(report))
  os.makedirs(_OUT.value, exist_ok=True)
  with open(os.path.join(_OUT.value, 'credit.json'), 'w') as f:
    f.write(json.dumps(report, indent=2) + '\n')
  if played:
    title = f'{report["env"]}, {report["policy"]} policy: credit of two groups'
    path = os.path.join(_OUT.value, 'credit.png')
    credit_report.picture(credits, played, path, title)
    print(f'written: {_OUT.value}/credit.json, {path}')


if __name__ == '__main__':
  cli.run(main, required=())
