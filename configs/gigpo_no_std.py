"""GiGPO without the division by the deviation (F_norm = 1 in the paper).

Paper: Group-in-Group Policy Optimization for LLM Agent Training, 2505.10978.

  A(a_t) = (sum r - mean_group) + omega ( sum over k >= t of
           gamma^(k-t) r_k - mean_state ),   omega = 1, gamma = 0.95

Otherwise as gigpo.py. Advantages have the size of the rewards, so a change of
the reward's scale is a change of the step before clipping.

  python -m experiments.train --config=configs/gigpo_no_std.py \
    --workdir=runs/gigpo_no_std
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='gigpo_no_std')
  c.advantage = ('episode', 'step')
  c.stream.episode = ('episode_return', 'center')
  c.stream.step = ('step_return', 'center')
  base.hp(c, 'step', 'step_return', gamma=0.95)
  base.hp(c, 'step', 'center', by=('group', 'state'), unit='turn')
  return base.finish(c)
