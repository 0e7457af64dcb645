"""GiGPO: compares episodes of a task, and steps from the same state.

Paper: Group-in-Group Policy Optimization for LLM Agent Training, 2505.10978.

  A(a_t) = z_group( sum r ) + omega z_state( sum over k >= t of
           gamma^(k-t) r_k ),   omega = 1 (coef.step), gamma = 0.95

z_state compares the turns of a group whose observation is the same; a turn
that is alone in its state has no step advantage. Episodes count once each, as
in the paper; the later code weighs them by their turns. The code's optional
KL term is left out.

  python -m experiments.train --config=configs/gigpo.py --workdir=runs/gigpo
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='gigpo')
  c.advantage = ('episode', 'step')
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.stream.step = ('step_return', 'center', 'scale')
  base.hp(c, 'step', 'step_return', gamma=0.95)
  base.hp(c, 'step', 'center', by=('group', 'state'), unit='turn')
  base.hp(c, 'step', 'scale', by=('group', 'state'), unit='turn')
  return base.finish(c)
