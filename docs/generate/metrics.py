"""Writes docs/METRICS.md: the numbers of metrics.jsonl, with their units.

python -m docs.generate.metrics
"""

from collections.abc import Iterator

from agentrl import cli
from agentrl.log import descriptions
from docs.generate import config

PAGE = 'docs/METRICS.md'
# Title, what begins the names of its metrics, a sentence.
SECTIONS = (
  ('Evaluation', ('eval',), 'On held-out tasks, every `eval.every` steps.'),
  ('Rollouts', ('rollout',), 'Of the trajectories sampled in this step.'),
  (
    'Tasks',
    ('tasks',),
    'Of the whole run, where the memory `task_statistics` counts them.',
  ),
  (
    'Memories',
    (
      *('compensation', 'league', 'skills', 'texts', 'role_baseline'),
      'annotations',
    ),
    'Of the queue of the memory `compensation`, of what is practised by'
    ' `skills`, of the bank of `texts`, averages of seats, and labels that'
    ' came late.',
  ),
  (
    'Advantages',
    ('advantage',),
    '`*` is a stream of `c.advantage`, such as `episode`, or a link in it.',
  ),
  (
    'Learned rewards and signals',
    (
      'prm',
      'degraded_truth',
      'value',
      'progress',
      'information',
      'annotated_reward',
      'kl',
      'blend',
      'reward_model',
      'principled_reward',
      'latent_reward',
      'multi_head_reward',
    ),
    'Reported by the components that a method names in `c.signal` and'
    ' `c.reward`.',
  ),
  ('Losses and log-probs', ('loss', 'logp'), '`*` is a term of `c.loss`.'),
  (
    'Networks and policy losses',
    ('*', 'distillation', '*_explained', '*clip'),
    '`*` is a role of `c.role` (`policy`, `critic`, `prm`), or a term of'
    ' `c.loss` such as `ppo`.',
  ),
  ('Time', ('time',), ''),
  (
    'Sampler jobs',
    ('samplers',),
    'Of the jobs that collect batches, with `staleness.jobs`.',
  ),
)
_HEAD = """\
# Metrics

Made by `python -m docs.generate.metrics` from `agentrl/log/descriptions.py`; do
not edit it.

Each row of a run's `metrics.jsonl` is one step; TensorBoard and
[the dashboard](DASHBOARD.md) show the same names. A metric stands there only if
the method has what it measures. A name is described by the first line of this
page that fits it, and `*` fits any text. Shares are between 0 and 1; a nat is
1 / ln 2 = 1.44 bits.
"""


def page() -> str:
  """The whole page: a table of each section."""
  lines = [_HEAD]
  for title, scopes, sentence in SECTIONS:
    lines += [f'## {title}', '']
    lines += [sentence, ''] if sentence else []
    lines += [*_table(scopes), '']
  return '\n'.join(lines)


def scope(name: str) -> str:
  """The text of a metric's name that says to which section it belongs."""
  return name.partition('/')[0]


def _table(scopes: tuple[str, ...]) -> Iterator[str]:
  yield '| metric | unit | meaning |'
  yield '|---|---|---|'
  for name, (unit, meaning) in descriptions.METRICS.items():
    if scope(name) in scopes:
      yield config.row(f'`{name}`', unit, meaning)


def main() -> None:
  with open(PAGE, 'w', encoding='utf-8') as f:
    f.write(page())
  print(f'written: {PAGE}')


if __name__ == '__main__':
  cli.run(main, required=())
