"""HiPER with the switch advantage of its released code.

Paper: HiPER: Hierarchical Reinforcement Learning with Explicit Credit
Assignment for Large Language Model Agents, 2602.16165.

  A_switch = return to go of the segment - V_switch

A third value head, V_switch, in the place of the paper's (s - beta) (V_high -
V_low). What follows a decision is then the decision's, the action and its luck
included. All else is configs/hiper.py's.

  python -m experiments.train --config=configs/hiper_released.py \
    --workdir=runs/hiper_released
"""

from agentrl.configs import base, hiper


def get_config(arg=''):
  c = base.get_config(arg, method='hiper_released')
  hiper.levels(c, 'heads', 3)
  c.stream.switch = ('turn_reward', 'hae_switch')
  return base.finish(c)
