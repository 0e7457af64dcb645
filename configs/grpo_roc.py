"""GRPO-RoC: oversamples attempts and keeps the clean solutions.

Paper: rStar2-Agent: Agentic Reasoning Technical Report, 2508.20722.

  A = (R - mean) / (std + eps) over the half of each group that is kept

Resampling on correct: failures are kept at random and in proportion, at least
two; solutions by their share of failed calls (1/2 if they made none) and by
answers beyond the first one. Groups that are all solved or all failed go.
Statistics are those of what is kept. The paper draws solutions by their
penalty, the released code sorts them, as here. In a world without tools, such
as the default one, nothing is called or answered, and solutions are ordered by
how few of their messages were not understood. Clip 0.2 and 0.28, no KL.

rollout.batch and rollout.group_size are what is trained on; of each group
hp.collect.<piece>.group_times as many attempts are made, so that a step costs
twice the sampling of grpo.py. rollout/success is that of what was kept: the
held-out success tells.

  python -m experiments.train --config=configs/grpo_roc.py \
    --workdir=runs/grpo_roc
"""

from agentrl.configs import base, envs


def get_config(arg=''):
  c = base.get_config(arg, method='grpo_roc')
  tools = {'calls', 'faults', 'answers'} <= set(envs.terms(c))
  c.collect = 'resample_on_correct_calls' if tools else 'resample_on_correct'
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  base.hp(c, 'ppo', 'ppo', clip_high=0.28)
  return base.finish(c)
