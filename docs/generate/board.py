"""Page of the board of methods, docs/BOARD.md, from its report.

It is written by `python -m experiments.results` where docs/results has one, and
by `python -m docs.generate.board` for methods that came since.
"""

from collections.abc import Mapping
from typing import Any

from agentrl import cli
from agentrl.lab.tabular import build
from agentrl.run import config_file
from docs.generate import method_cost

NAME = 'board'
PAGE = 'BOARD.md'
ERROR = 'credit: correlation with the exact advantage'
_HEAD = """\
# Board of methods

Made by `python -m experiments.results` from [its
numbers](results/board.json); do not edit it. [What it
shows](results/board.md), with every run.

Policies are tables, in worlds where success and the exact advantage are
computed; all else is the code that trains language models. A gain is success
averaged over {steps:,} environment steps, in points above GRPO, each at its own
tuned rate, {pairs} pairs [95% interval]; **bold** where it excludes zero after
Holm's correction over the methods of that world. *Credit* is the correlation of
a method's advantages with the exact one, in the order of the worlds. *Passes*
are the networks that read the batch beside the update, and the gradient steps
of those that are trained; the policy's own update is in all. A small world
ranks methods in that world.
"""


def page(report: Mapping[str, Any]) -> str:
  """The page: methods by their mean gain, then those that are not on it."""
  envs = report['envs']
  first = next(iter(envs.values()))
  heads = [env['label'].split(':')[0] for env in envs.values()]
  lines = [
    _HEAD.format(
      steps=first['budget']['env_steps'], pairs=len(report['seeds']['pairs'])
    ),
    f'| method | {" | ".join(heads)} | credit | passes |',
    '|---|' + '---|' * (len(heads) + 2),
  ]
  by_env = {name: gains(env) for name, env in envs.items()}
  arms = first['settings']['tuned']['arms']
  mean = {
    arm: sum(of[arm]['mean'] for of in by_env.values() if arm in of)
    for arm in arms
  }
  for arm in sorted(arms, key=lambda x: -mean[x]):
    cells = [gain(of.get(arm)) for of in by_env.values()]
    cells += [_credit(report, arm), _passes(arms[arm]['config'])]
    lines.append(f'| [{arm}](methods/{arm}.md) | {" | ".join(cells)} |')
  lines += ['', f'Tasks, order and seeds: panel `{report["panel"][:16]}`.', '']
  lines += ['[What to try first](METHODS.md#which-to-try-first) is chosen by']
  lines += ['this table.', '', '## Not on the board', '']
  for why, names in absent(set(arms)).items():
    lines.append(f'- {", ".join(f"`{x}`" for x in names)}: {why}')
  return '\n'.join(lines) + '\n'


def gains(env: Mapping[str, Any]) -> dict[str, Mapping]:
  """Returns every method's comparison with GRPO at tuned rates: area."""
  rows = env['settings']['tuned']['comparisons']
  return {
    x['arm']: x
    for x in rows
    if x['measure'] == 'area' and x['baseline'] == 'grpo'
  }


def gain(x: Mapping | None) -> str:
  """Returns a comparison in points, bold where Holm's correction leaves it."""
  if x is None:
    return 'reference'
  text = '{:+.1f} [{:+.1f}, {:+.1f}]'.format(
    *(100 * x[k] for k in ('mean', 'low', 'high'))
  )
  return f'**{text}**' if x['holm'] < 0.05 else text


def _credit(report: Mapping[str, Any], arm: str) -> str:
  correlations = [
    env['settings']['tuned']['arms'][arm]['told'].get(ERROR)
    for env in report['envs'].values()
  ]
  return ', '.join('–' if x is None else f'{x:.2f}' for x in correlations)


def _passes(path: str) -> str:
  return method_cost.cost(config_file.load(path)).passes_text()


def absent(here: set[str]) -> dict[str, list[str]]:
  """Why other methods are not on the board: {reason: names}."""
  out: dict[str, list[str]] = {}
  for name in sorted(set(config_file.methods()) - here):
    out.setdefault(_reason(name), []).append(name)
  return out


def _reason(name: str) -> str:
  config = config_file.load(f'configs/{name}.py')
  try:
    build.fits(config)
  except ValueError as error:
    return str(error).split(';')[0]
  if config.stage:
    return 'they have stages, of which RL is one'
  return REASONS[name]


LACKS = 'their rewards have terms that these worlds lack'
SAME = 'what they correct does not occur in tables'
REASONS = {
  'adca': LACKS,
  'adca_allocation': LACKS,
  'cm2': LACKS,
  'coopetition_gym': 'there is one agent here',
  'dpo': 'it came after this comparison',
  'dr_mas': 'there is one agent here',
  'duration_aware': 'all actions take the same time here',
  'icepop': SAME,
  'lumina': LACKS,
  'mars': 'there is one agent here',
  'mis': SAME,
  'muonclip': 'tables have neither matrices nor attention',
  'oprl_degraded': 'an instrument: the truth with a planted error',
  'oprl_sparse': 'these worlds pay the outcome alone: it is oprl',
  'para_grpo': LACKS,
  'ppr': LACKS,
  'steppo': 'messages of one action: it is ppo_turn',
  'truncated_is': SAME,
}


def main() -> None:
  from docs.generate import results  # imports this module

  path = f'docs/{PAGE}'
  text = page(results.reports('docs/results')[NAME])
  with open(path, 'w', encoding='utf-8') as f:
    f.write(text)
  print(f'written: {path}')


if __name__ == '__main__':
  cli.run(main, required=())
