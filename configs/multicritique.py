"""MultiCritique: critics that are put together, and critiques that mend.

Paper: Training Language Models to Critique With Multi-agent Feedback,
2410.15287.

  demonstration = the faults that more than half of several critics name
  R = mean over revisers of the solution's quality once revised by the critique
  A = (R - mean_group) / std_group

The warm start imitates what the critics agree on: each overlooks faults and
sees some that are not there. RL behind it pays a critique by what becomes of
the solution in the hands of several revisers, of whom one alone is a noisy
judge. No label of a fault is used by either.

  one critic    --config.env.critics=1
  one reviser   --config.env.revisers=1

Missing: critics, revisers and a meta-critique that are models, and a reward
model. Critics and revisers are scripted, a majority stands for the
meta-critique, and the policy is paid by revisions as they come, where the paper
trains a reward model on pairs that they confirm (docs/ENVIRONMENTS.md,
Critiques).

Expect better critiques of several critics than of one after the warm start, and
RL to add to both. Seen so far, one seed: F1 of held-out critiques .57 after
1,000 supervised steps on five critics and .49 on one; .63 and .62 after 100
steps of RL behind them, which also names more lines that are right.

  python -m experiments.train --config=configs/multicritique.py \
    --workdir=runs/multicritique
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='multicritique', env='critiques')
  if c.env.name == 'critiques':
    c.env.critics, c.env.revisers = 5, 4
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  return base.finish(c)
