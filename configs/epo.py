"""EPO: GRPO with an entropy bonus, smoothed towards its own history.

Paper: EPO: Entropy-regularized Policy Optimization for LLM Agents
Reinforcement Learning, 2509.22576.

  loss = ppo - lambda [ H - w(step) L_smooth ],   lambda = 0.001
  L_smooth = mean_t max(low Hbar - H_t, 0)^2 + max(H_t - high Hbar, 0)^2

Hbar is the mean entropy of earlier iterations at the same turn of a
trajectory, the band [0.5, 1.5] Hbar. w(step) falls from 1 to 0.87 over the
first half of the run and from 0.18 to 0.04 over the second. The released
code's penalty is constant outside of the band and so has no gradient
(configs/epo_released.py); the squared distance here is ours. The code applies
it only to batches that reach half of the turns; here it needs 32 turns of
that index. Expect less swing of rollout/entropy than with the plain bonus.

  python -m experiments.train --config=configs/epo.py --workdir=runs/epo
"""

from agentrl.configs import base


def smoothed(c, term):
  """Sets the bonus and the smoothing term of both forms of EPO, on GRPO."""
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.signal = ('entropy_history',)
  c.loss = ('ppo', 'entropy', term)
  c.coef.entropy = 1e-3
  c.coef[term] = 1e-3
  c.schedule.coef = {term: ('phases', 0.0, 1e-3, 0)}


def get_config(arg=''):
  c = base.get_config(arg, method='epo')
  smoothed(c, 'entropy_hinge')
  return base.finish(c)
