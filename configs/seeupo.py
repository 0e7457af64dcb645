"""SeeUPO: updates turns one after the other, last ones first.

Paper: SeeUPO: Sequence-Level Agentic-RL with Convergence Guarantees,
2602.06554.

  s_k = product over the tokens of turn k of rho
  M_k = sg[ (R - mean_group) * product over j > k of s_j ]
  max(-M_k s_k, -M_k clip(s_k, 0.8, 1.2)),   k = K ... 1

Each sub-update sees what the ones before made of the later turns. The paper
has one sub-update for each turn; plan n = 4 cuts the turns into four blocks,
in each of which turns move together, to save forward passes; n =
rollout.max_turns is the paper. The product over later turns stays within
exp(+-2).

  python -m experiments.train --config=configs/seeupo.py --workdir=runs/seeupo
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='seeupo')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center')
  c.loss = ('ppo_suffix',)
  c.loss_aggregation.ppo_suffix = 'trajectory_turn_mean'
  c.minibatch = 'reverse_turns'
  del c.hp.minibatch.minibatches
  base.hp(c, 'minibatch', 'reverse_turns', n=4)
  return base.finish(c)
