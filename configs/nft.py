"""NFT: negative-aware fine-tuning with an implied negative policy.

Paper: Bridging Supervised Learning and Reinforcement Learning in Math
Reasoning, 2505.18116.

  solved: -(1 - r) log rho
  failed: -(1 - r) log max( (1 - r rho) / (1 - r), 1 ),   gradient kept

rho is a token's, as by default in the released code; configs/nft_sequence.py
has its other mode, the whole trajectory's. r is the group's success rate, in
[0.02, 0.98]; groups that solved all or nothing do not count. hp.nft.nft.weigh
= 'deviation' has GRPO's gradient on the first sub-update, negative = 0 is
rejection fine-tuning. As in the released code sums are divided by a constant,
not by the number of tokens. The code samples until enough groups are mixed;
here the batch is what it is.

  python -m experiments.train --config=configs/nft.py --workdir=runs/nft
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='nft')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_outcome', 'success_rate')
  c.loss = ('nft',)
  c.loss_aggregation.nft = 'fixed'
  length = c.rollout.max_turns * c.rollout.max_message_tokens
  base.hp(c, 'nft', 'fixed', length=length)
  return base.finish(c)
