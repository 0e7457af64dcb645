"""GSPO-token: sequence ratio, token-level advantages.

Paper: Group Sequence Policy Optimization, 2507.18071, its token form.

  s_t = sg[s] pi_t / sg[pi_t];   max(-A_t s_t, -A_t clip(s_t, ...))

With one advantage per trajectory the gradient is GSPO's. Here credit differs
between turns, returns to go z-scored over the group's turns, which is what
the token form is for. Widths as in configs/gspo.py.

  python -m experiments.train --config=configs/gspo_token.py \
    --workdir=runs/gspo_token
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='gspo_token')
  c.advantage = ('turn',)
  c.stream.turn = ('step_return', 'center', 'scale')
  base.hp(c, 'turn', 'step_return', gamma=1.0)
  base.hp(c, 'turn', 'center', unit='turn')
  base.hp(c, 'turn', 'scale', unit='turn')
  c.loss = ('gspo_token',)
  c.loss_aggregation.gspo_token = 'trajectory_mean'
  base.hp(c, 'gspo_token', 'gspo_token', clip_low=0.03, clip_high=0.04)
  return base.finish(c)
