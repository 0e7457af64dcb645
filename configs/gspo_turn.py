"""Turn-level GSPO: one ratio per message.

Paper: Group Sequence Policy Optimization, 2507.18071, whose sequence is here
one message of the agent.

  s_k = exp( mean over the tokens of turn k of log rho )

Turns of a trajectory are clipped one by one, so that one message that moved
far does not silence the others. Every turn counts the same in its trajectory.
Widths as in configs/gspo.py, wider for the few tokens of a message.

  python -m experiments.train --config=configs/gspo_turn.py \
    --workdir=runs/gspo_turn
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='gspo_turn')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.loss = ('gspo_turn',)
  c.loss_aggregation.gspo_turn = 'trajectory_turn_mean'
  base.hp(c, 'gspo_turn', 'gspo_turn', clip_low=0.1, clip_high=0.12)
  return base.finish(c)
