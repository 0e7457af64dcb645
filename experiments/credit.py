"""Compares the credit of every method with the true advantage.

  python -m experiments.credit                     # all of configs/, seconds
  python -m experiments.credit --env=sokoban --methods=grpo,gigpo,oprl
  python -m experiments.credit --workdir=runs/oprl --warm=0

Prints a table and writes credit.json and credit.png into --out. The truth is
the exact advantage under random play (bifurcation), or how much nearer the
solver is to the end (sokoban). Methods that need more are listed as left out.
"""

import json
import os

from absl import flags

from agentrl import cli, domain
from agentrl.lab.papers.credit.size import TRUTH, CreditSize
from agentrl.run import config_file
from agentrl.runtime import storage

_METHODS = flags.DEFINE_list('methods', None, 'Methods; default: all.')
_ENV = flags.DEFINE_enum('env', 'bifurcation', list(TRUTH), 'Environment.')
_WORKDIR = cli.flag(
  'workdir', '', domain.Path(), 'Run that gives policy and environment'
)
_OUT = cli.flag(
  'out', 'runs/credit', domain.Path(empty=False), 'Folder to write to'
)
_SIZE = {
  name: cli.flag(name, CreditSize()._asdict()[name], of, f'Size.{name}')
  for name, of in domain.declared(CreditSize).items()
}


def main() -> None:
  import jax  # takes seconds

  from agentrl.lab.papers.credit import report, study

  # Programs are small and run a few times: most of the time is compilation.
  jax.config.update('jax_disable_most_optimizations', True)
  size = CreditSize(**{k: flag.value for k, flag in _SIZE.items()})
  names = _METHODS.value or config_file.methods()
  found, credits, played = study.measure(
    names, _ENV.value, size, _WORKDIR.value
  )
  print(report.table(found))
  os.makedirs(_OUT.value, exist_ok=True)
  if played:
    shown = report.most_different(credits, played.valid)
    found['picture'] = {'of': len(credits), 'shown': shown}
    title = f'{found["env"]}, {found["policy"]} policy: credit of two groups'
    report.picture(credits, played, f'{_OUT.value}/credit.png', title)
  storage.write(f'{_OUT.value}/credit.json', json.dumps(found, indent=2) + '\n')
  print(f'written to {_OUT.value}')


if __name__ == '__main__':
  cli.run(main, required=())
