"""StarPO-S: trains on the quarter of tasks with the most uncertain outcome.

Paper: RAGEN: Understanding Self-Evolution in LLM Agents via Multi-Turn
Reinforcement Learning, 2504.20073.

  kept: the groups whose returns deviate most, round(0.25 * groups) of them
  delta_t = r_t + gamma V_t+1 - V_t;   A_t = delta_t + gamma lambda A_t+1

Uncertainty is the deviation of the returns of a task's attempts. With a
critic, without KL, clipped at 0.2 below and 0.28 above, gamma = lambda = 1, as
the paper's stabilised PPO; its entropy bonus is 0.001. The critic too learns
from what is kept alone. How many are kept: hp.curate.most_varied.share.

  python -m experiments.train --config=configs/starpo_s.py \
    --workdir=runs/starpo_s
"""

from agentrl.configs import base, ppo


def get_config(arg=''):
  c = base.get_config(arg, method='starpo_s')
  c.curate = ('most_varied',)
  ppo.critic(c)
  c.advantage = ('token',)
  c.stream.token = ('turn_reward', 'gae_tokens')
  base.hp(c, 'token', 'gae_tokens', lam=1.0)
  c.post = ('whiten_tokens',)
  c.loss = ('ppo', 'entropy')
  base.hp(c, 'ppo', 'ppo', clip_high=0.28)
  c.coef.entropy = 1e-3
  return base.finish(c)
