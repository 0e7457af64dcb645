"""OPRL as its released code computes it, defects aside.

Paper: Online Process Reward Learning for Agentic RL, 2509.19199.

  A(a_t) = LOO_group( sum r ) + alpha LOO_first( r_phi(a_t) / max |r_phi| )

What differs from the paper: a trajectory's score in the pair loss is the mean
over its steps and phi scores a batch before it learns from it, both as in
oprl.py; step rewards are divided by the batch's largest;
their baseline is of one step of each trajectory (the code takes whichever row
comes first, here the first turn); a lone trajectory keeps its raw value; the
loss has a dual clip of 3 and is a mean over tokens. Not copied: a detached
score, which left the released PRM without gradient, and statistics over one
device's part of the batch.

  python -m experiments.train --config=configs/oprl_parity.py \
    --workdir=runs/oprl_parity
"""

from agentrl.configs import base, oprl


def get_config(arg=''):
  c = base.get_config(arg, method='oprl_parity')
  oprl.prm(c)
  c.advantage = ('episode', 'step')
  c.stream.episode = ('episode_return', 'leave_one_out')
  c.stream.step = ('add_signal', 'scale_by_max', 'leave_one_out')
  base.hp(c, 'episode', 'leave_one_out', singleton='raw')
  base.hp(c, 'step', 'scale_by_max', within='turn')
  base.hp(c, 'step', 'leave_one_out', unit='first_turn', singleton='raw')
  c.loss = ('ppo_dual',)
  return base.finish(c)
