"""OPRL ablation "merged rewards": one reward, normalised once.

Paper: Online Process Reward Learning for Agentic RL, 2509.19199, ablations.

  A(a_t) = z_group( sum r + alpha r_phi(a_t) )

alpha is hp.episode.add_signal.coef. Each trajectory counts once in mean and
deviation, its steps sharing that, so that with step rewards of zero this is
GRPO's advantage. The released code ends in RLOO: stream.episode =
('episode_return', 'add_signal', 'leave_one_out').

  python -m experiments.train --config=configs/oprl_merged.py \
    --workdir=runs/oprl_merged
"""

from agentrl.configs import base, oprl


def get_config(arg=''):
  c = base.get_config(arg, method='oprl_merged')
  oprl.prm(c)
  c.loss_aggregation.ppo = 'trajectory_mean'
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'add_signal', 'center', 'scale')
  return base.finish(c)
