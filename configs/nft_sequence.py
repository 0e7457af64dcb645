"""NFT with sequence-level ratios.

Paper: Bridging Supervised Learning and Reinforcement Learning in Math
Reasoning, 2505.18116; `ratio_type` sequence of its released code.

  solved: -(1 - r) log rho,   rho = product over the trajectory's tokens
  failed: -(1 - r) log max( (1 - r rho) / (1 - r), 1 ),   gradient kept

A trajectory's value counts once, whatever its length; the code sums over
trajectories, here it is their mean. log rho is no more than 10. All else is
configs/nft.py's. Expect a failure to be pushed down the less the more tokens
it has become rarer by.

  python -m experiments.train --config=configs/nft_sequence.py \
    --workdir=runs/nft_sequence
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='nft_sequence')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_outcome', 'success_rate')
  c.loss = ('nft_sequence',)
  c.loss_aggregation.nft_sequence = 'trajectory_mean'
  return base.finish(c)
