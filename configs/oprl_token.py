"""OPRL ablation "token-level": a process reward per token.

Paper: Online Process Reward Learning for Agentic RL, 2509.19199, ablations.

  A_t = z_group( sum r ) + alpha z_group( beta (log phi - log old)(a_t) )

the second over all sampled tokens of the group. The released code leaves the
last token of a message at 0; here it has its reward as all others.

  python -m experiments.train --config=configs/oprl_token.py \
    --workdir=runs/oprl_token
"""

from agentrl.configs import base, oprl


def get_config(arg=''):
  c = base.get_config(arg, method='oprl_token')
  oprl.prm(c)
  c.loss_aggregation.ppo = 'trajectory_mean'
  c.advantage = ('episode', 'step')
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.stream.step = ('add_token_signal', 'whiten_tokens')
  base.hp(c, 'step', 'whiten_tokens', by=('group',), unit='token')
  c.coef.step = oprl.ALPHA
  return base.finish(c)
