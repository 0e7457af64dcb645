"""GRPO for pass@k: only the best of a group is rewarded, by its lead.

Paper: Optimizing Language Models for Inference Time Objectives using
Reinforcement Learning, 2503.19595.

  A_best = R_best - R_second,   A = 0 for the others

This is the leave-one-out gradient of the group's maximum. Two that share the
maximum lead by nothing: with a reward of 0 or 1 only the one that solves its
task alone learns. The default reward counts turns as well, so that the
shortest solution leads. As in the paper nothing is divided by a deviation; put
'scale' before 'lead_of_best' for the variant that does.

  python -m experiments.train --config=configs/grpo_passk.py \
    --workdir=runs/grpo_passk
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='grpo_passk')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'lead_of_best')
  return base.finish(c)
