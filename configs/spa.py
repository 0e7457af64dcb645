"""SPA: PPO on the estimated share of each turn in the outcome.

Paper: SPA-RL: Reinforcing LLM Agents via Stepwise Progress Attribution,
2505.20732.

  r_k = alpha c_k + beta g_k,   c fitted so that sum_k c_k = R

g_k is 1 where the message was understood (beta for every turn, less beta where
it is invalid); alpha = 1 and beta = 0.1 here, the paper's were not known to
us. R is the task's own score. The estimator scores a batch before it has seen
it; the paper fits it once to trajectories collected beforehand, here it learns
in every iteration. Token GAE and critic are those of ppo.py. Metric
progress/truth_correlation compares c with the environment's own progress.

  python -m experiments.train --config=configs/spa.py --workdir=runs/spa
"""

from agentrl.configs import base, ppo


def get_config(arg=''):
  c = base.get_config(arg, method='spa')
  ppo.critic(c)
  base.role(c, 'progress', lr=1e-3, heads=1)
  c.signal = ('progress', 'value')
  c.advantage = ('token',)
  c.stream.token = ('add_signal', 'add_constant', 'add_term', 'gae_tokens')
  base.hp(c, 'token', 'add_signal', name='progress', coef=1.0)
  base.hp(c, 'token', 'add_constant', value=0.1)
  base.hp(c, 'token', 'add_term', name='invalid', coef=-0.1)
  c.post = ('whiten_tokens',)
  return base.finish(c)
