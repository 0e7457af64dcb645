"""EPO as released: the smoothing term has no gradient.

Paper: EPO: Entropy-regularized Policy Optimization for LLM Agents
Reinforcement Learning, 2509.22576.

  loss = ppo - lambda [ H - w(step) L_smooth ],   lambda = 0.001
  L_smooth = 0.1 times the share of tokens with H_t outside [0.5, 1.5] Hbar

What remains is the plain entropy bonus: the control for configs/epo.py, which
has the rest of the description. entropy_band/outside tells the share.

  python -m experiments.train --config=configs/epo_released.py \
    --workdir=runs/epo_released
"""

from agentrl.configs import base, epo


def get_config(arg=''):
  c = base.get_config(arg, method='epo_released')
  epo.smoothed(c, 'entropy_band')
  return base.finish(c)
