"""AEGIS: errors injected into the logs of a team, and a policy that finds them.

Paper: AEGIS: Automated Error Generation and Identification for Multi-Agent
Systems, 2509.14295.

  log' = a log of a team that succeeds, one message changed, the rest played
         again; kept if the team now fails; the label is (agent, mistake)
  R = 1 for the label, partial where one of the two is right, else 0
  A = (R - mean_group) / std_group

The labels are known because the errors were made: no judge reads a log. The
warm start is the paper's supervised stage, GRPO on graded rewards its second.
Kinds of errors can be kept out of training:

  unseen kinds    --config.env.held_out='solver alter, checker alter'
  labels alone    --config.env.partial=0.0

Missing: the contrastive stage, failures that nobody injected, and errors that a
language model writes to fit the conversation: here a planner, a solver and a
checker work on sums, and there are six kinds of errors (docs/ENVIRONMENTS.md,
Injected errors). The amounts of partial reward are chosen here.

Expect the mistakes that show in a copied text before those in arithmetic. Seen
so far, one seed, logs of two steps: 43% of held-out logs after 500 supervised
steps, a seventh by chance, and 40% after 60 steps of RL behind them: no gain.
By kind of mistake nothing is measured yet.

  python -m experiments.train --config=configs/aegis_errors.py \
    --workdir=runs/aegis_errors
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='aegis_errors', env='injected_errors')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  return base.finish(c)
