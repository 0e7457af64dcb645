"""Calibrated answers: the reward of a confidence that fits, in GRPO.

Paper: The Confidence Dichotomy: Analyzing and Mitigating Miscalibration in
Tool-Use Agents, 2601.07264 (its separated reward).

  R = y (1 + b (1 - (1 - c)^2)) - (1 - y) n c^2;   A = z_group( R )

y says whether the task was solved, c is the confidence stated with the answer:
whatever is solved earns at least 1, whatever is not at most 0. Other forms are
hp.reward.calibration.form: brier, log, linear. A tool that is sometimes wrong
and never says so is what makes agents overconfident; here one of the
calculators is (env.tools). b = n = 1 are ours.

Expect accuracy as with the outcome alone, and confidences that tell right from
wrong answers.

  python -m experiments.train --config=configs/calibration.py \
    --workdir=runs/calibration
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='calibration', env='unreliable_tools')
  if 'confidence' in c.env:
    c.env.confidence = True
  c.rollout.max_message_tokens = max(c.rollout.max_message_tokens, 64)
  c.reward = ('calibration',)
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  return base.finish(c)
