"""REINFORCE++: returns to go, whitened over the batch; no group, no critic.

Paper: REINFORCE++: Stabilizing Critic-Free Policy Optimization with Global
Advantage Normalization, 2501.03262.

  A_t = whiten( sum over t' >= t of gamma^(t'-t) r_t' ),  gamma = 1 per token

The paper's reward also holds -beta KL(old || reference) of each token; that
is reinforce_pp_kl.py. A turn's reward stands at its last token, so a token is
not credited with what was earned before it; with one reward at the end this
is the paper's equation.

  python -m experiments.train --config=configs/reinforce_pp.py \
    --workdir=runs/reinforce_pp
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='reinforce_pp')
  c.advantage = ('episode',)
  c.stream.episode = ('turn_reward', 'return_to_go_tokens')
  c.post = ('whiten_tokens',)
  return base.finish(c)
