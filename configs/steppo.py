"""StepPO: turns as the actions of the MDP, with a turn-level critic.

Paper: StepPO: Step-Aligned Policy Optimization for Agentic Reinforcement
Learning, 2604.18401.

  delta_k = r_k + gamma V_k+1 - V_k;   A_k = delta_k + gamma lambda A_k+1

V_k is the value at the last token of the turn's prompt, where alone it is
regressed on A_k + V_k; A_k is whitened over turns (ddof 1) and given to all
tokens of the turn, whose ratios and clips stay the token's own. This is what
ppo_turn.py does, found again: same links, same values, and nothing of its own
to add but the name. gamma = 1 and lambda = 0.95 per turn are ours.

Expect ppo_turn.py's curve.

  python -m experiments.train --config=configs/steppo.py \
    --workdir=runs/steppo
"""

from agentrl.configs import ppo_turn


def get_config(arg=''):
  c = ppo_turn.get_config(arg)
  c.method = 'steppo'
  return c
