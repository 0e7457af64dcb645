"""PRS: a ladder of stages, the last of which pays by the answer's words.

Paper: Enhancing Agentic RL with Progressive Reward Shaping and Value-based
Sampling Policy Optimization, 2512.07478 (its shaping; prs_vspo.py has its
sampling by value, too).

  R = 0, 0.1 or 0.2 + 0.8 Q;   A = z_group( R )

0 where no message was understood, 0.1 where some were, the last where all
were; Q is the length-aware BLEU of the answer (judge `answer_bleu`). The paper
has a judge for long answers. Its constants were not found; these are ours.

Expect an earlier start than of the outcome alone, where formats fail at first.

  python -m experiments.train --config=configs/prs.py --workdir=runs/prs
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='prs', env='fact_corpus')
  c.judge = ('answer_bleu',)
  c.reward = ('ladder',)
  base.hp(c, 'reward', 'ladder', quality=('answer_bleu',))
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  return base.finish(c)
