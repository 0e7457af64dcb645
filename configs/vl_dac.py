"""VL-DAC: token ratios, turn advantages, a critic with detached features.

Paper: Enhancing Vision-Language Model Training with Reinforcement Learning in
Synthetic Worlds for Real-World Success, 2508.04280.

  A_k by GAE over turns (gamma 0.99, lambda 0.95), whitened over turns;
  loss = PPO(rho_t, A_k, clip 0.1) + 0.5 value_clipped + 0.04 k3 KL

The value is a head of the policy, read before the turn's first token; its
gradient stops at the trunk. It is regressed once a turn and divided by the
number of turns. Four epochs, as the paper; the optimizer is the policy's own,
and the clip of the value is wide because returns here span about ten. Its
skipped minibatches (ratio > 10), warm-up of the value and LoRA are left out.

  python -m experiments.train --config=configs/vl_dac.py --workdir=runs/vl_dac
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='vl_dac')
  c.role.policy.heads = 1
  base.role(c, 'reference', kind='frozen')
  c.signal = ('policy_value', 'reference')
  c.advantage = ('turn',)
  c.stream.turn = ('turn_reward', 'gae_turns')
  base.hp(c, 'turn', 'gae_turns', gamma=0.99, lam=0.95)
  c.post = ('whiten',)
  base.hp(c, 'post', 'whiten', unit='turn')
  c.loss = ('ppo', 'value_clipped', 'kl_k3')
  base.hp(c, 'ppo', 'ppo', clip_low=0.1, clip_high=0.1)
  base.hp(c, 'value_clipped', 'value_clipped', clip=2.0)
  c.coef.update(dict(value_clipped=0.5, kl_k3=0.04))
  base.hp(c, 'minibatch', 'minibatches', n=1, epochs=4)
  return base.finish(c)
