"""Agent0: a curriculum of proposed tasks, and trust in what solvers agree on.

Paper: Agent0: Unleashing Self-Evolving Agents from Zero Data via
Tool-Integrated Reasoning, 2511.16043.

  p = share of the solvers that gave the most common answer, the pseudo-label
  u = clip( (p - 0.3) / (0.8 - 0.3), 0, 1 )

  proposer   R = min(p, 1 - p) + 0.05 min(calls, 4) - s,   -1 - s if no task
  solver     R = 1 if it agrees,   A = z_group( R ) (0.6 + 0.4 u)
             ratio clipped at 1 - 0.2 and 1 + 0.2 + 0.1 (1 - u)

s is the share of the batch's proposals in the cluster of this one, by 1 - BLEU
and average linkage up to 1/2. Solvers learn from tasks of 0.3 <= p <= 0.8.

Where it differs: proposer and solver are one policy under two prompts and learn
in every step, where the paper trains two copies in turn; a proposal is a
Countdown instance and must be solvable, by exhaustive search; `calls` are those
of its solvers; no KL to a reference (0.01 there). The search could label as
well, and says how often the majority is wrong:

  verified labels     --config.hp.reward.solving.label=verified
  frozen proposer     --config.hp.reward.proposing.shape=none
  fixed curriculum    configs/grpo.py:env=countdown

Expect proposals/diversity to fall without the penalty, and proposals/agreement
to stay near the frontier. Seen so far, with the penalty, verified labels and no
trust: diversity stayed, and solvers gained as much as from random tasks
(docs/results/proposals.md).

  python -m experiments.train --config=configs/agent0.py --workdir=runs/agent0
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='agent0', env='proposed_countdown')
  c.rollout.kind, c.rollout.group_size = 'host_proposed', 8
  c.reward = ('proposing', 'solving')
  base.hp(
    c,
    'reward',
    'proposing',
    of='agreement',
    scale=0.5,  # min(p, 1 - p) is half of the frontier's
    repetition=1.0,
    calls=0.05,
    invalid=-1.0,
  )
  base.hp(c, 'reward', 'solving', label='majority')
  c.curate = ('within_frontier',)
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale', 'scale_by_trust')
  base.hp(c, 'episode', 'scale_by_trust', least=0.6)
  c.loss = ('ppo_by_trust',)
  return base.finish(c)
