"""Odysseus: turn-level critic; learns from positive advantages only.

Paper: Odysseus: Scaling VLMs to 100+ Turn Decision-Making in Games via
Reinforcement Learning, 2605.00347.

  A_k by GAE over turns, whitened;  loss = sum of the PPO loss over tokens of
  turns with A_k > 0, divided by how many these tokens are

Whitening comes before the filter, so that its threshold is the batch's mean.
The critic still regresses every turn; it is a network of the policy's shape
with a rate of its own, where the paper has a small CNN on frames. gamma = 1
and lambda = 0.95 per turn: the paper's were not known to us. Expect a drop in
entropy: nothing is pushed down.

  python -m experiments.train --config=configs/odysseus.py \
    --workdir=runs/odysseus
"""

from agentrl.configs import base, ppo


def get_config(arg=''):
  c = base.get_config(arg, method='odysseus')
  ppo.critic(c)
  c.advantage = ('turn',)
  c.stream.turn = ('turn_reward', 'gae_turns')
  c.post = ('whiten', 'positive_only')
  base.hp(c, 'post', 'whiten', unit='turn')
  return base.finish(c)
