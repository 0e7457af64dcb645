"""OTB: minimum-variance baseline for every token.

Paper: The Optimal Token Baseline: Variance Reduction for Long-Horizon LLM-RL,
2602.07078.

  A_t = G_t - sum_j W_t^j G_t^j / sum_j W_t^j     over the group
  W_t = sum over s <= t of (1 - 2 pi_s + sum_v pi_v^2)

G_t is the return from token t on. W_t, the squared gradient that a trajectory
has gathered, is read off the probabilities of one forward pass. The t-th
tokens are compared by their place among those that the policy sampled, in
whatever turn they stand; hp.episode.optimal_token_baseline.by=('group','turn')
compares inside turns of equal number alone. One update for each batch.

  python -m experiments.train --config=configs/otb.py --workdir=runs/otb
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='otb')
  c.advantage = ('episode',)
  c.stream.episode = (
    'turn_reward',
    'return_to_go_tokens',
    'optimal_token_baseline',
  )
  base.hp(c, 'minibatch', 'minibatches', n=1)
  return base.finish(c)
