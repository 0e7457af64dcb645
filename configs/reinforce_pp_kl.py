"""REINFORCE++ with the KL penalty in the reward.

Paper: REINFORCE++: Stabilizing Critic-Free Policy Optimization with Global
Advantage Normalization, 2501.03262.

  r_t = turn's reward at its last token - coef (log pi_old - log pi_ref)(a_t)
  A_t = whiten( sum over t' >= t of gamma^(t'-t) r_t' ),  gamma = 1 per token

coef is hp.episode.kl_in_reward.coef; the reference is the policy after the
warm start, frozen.

  python -m experiments.train --config=configs/reinforce_pp_kl.py \
    --workdir=runs/reinforce_pp_kl
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='reinforce_pp_kl')
  base.role(c, 'reference', kind='frozen')
  c.signal = ('reference',)
  c.advantage = ('episode',)
  c.stream.episode = ('turn_reward', 'kl_in_reward', 'return_to_go_tokens')
  base.hp(c, 'episode', 'kl_in_reward', coef=1e-3)
  c.post = ('whiten_tokens',)
  return base.finish(c)
