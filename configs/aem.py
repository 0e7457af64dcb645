"""AEM: GRPO whose turn advantages shrink with the entropy of the policy.

Paper: AEM: Adaptive Entropy Modulation for Multi-Turn Agentic Reinforcement
Learning, 2605.00425.

  u_k = (H_k - min_group H) / (max_group H - min_group H)
  A_k <- A_k exp(-lambda u_k) / mean_group exp(-lambda u)

H_k is the mean entropy of a turn's tokens when the update begins. The factor
works after any estimator: put 'entropy_factor' in c.post of another method.
The paper's lambda is not known to us; 1 gives factors between about 0.5 and
1.5. hp.post.entropy_factor.lam=0 is GRPO to the last bit. Expect GRPO's
curve with a slower fall of the entropy.

  python -m experiments.train --config=configs/aem.py --workdir=runs/aem
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='aem')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.post = ('entropy_factor',)
  c.loss_aggregation.ppo = 'trajectory_mean'
  return base.finish(c)
