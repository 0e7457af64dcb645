"""SPIRAL with a magnet: self-play that is drawn to the policy it began from.

Paper: A Unified Approach to Reinforcement Learning, Quantal Response
Equilibria, and Two-Player Zero-Sum Games, 2206.05825, on top of SPIRAL
(2506.24119), see spiral.py.

  L = L_SPIRAL + alpha KL(pi || rho),   rho the warm-started policy,
  alpha from 0.3 to 0.12, linearly over the run

Policy gradients of a zero-sum game go around an equilibrium, or into a corner.
The magnet's penalty makes the game one whose equilibrium draws them in, near
the first one for a small alpha. The warm start imitates uniform legal play, so
that rho is near uniform over legal moves.

Where it differs from the paper's mirror descent: its proximal term is PPO's
clip here, and the magnet stays where it is.

Seen, five seeds: 13 [11, 15]% of the start's exploitability is left, without
the magnet 53 [30, 77]% (docs/results/self_play.md).

  no baseline       --config.stream.episode="('episode_return',)"
  no magnet         --config=configs/spiral.py
  fixed opponent    --config.env.opponent=random

  python -m experiments.train --config=configs/spiral_magnet.py \\
    --workdir=runs/spiral_magnet
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='spiral_magnet', env='kuhn_poker')
  base.role(c, 'reference', kind='frozen')
  if not c.model.path:
    c.role.policy.lr = 5e-4
  c.signal = ('reference',)
  c.memory = (*c.memory, 'role_baseline')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'less_role_baseline')
  c.loss = ('ppo', 'kl_k2')
  c.coef.kl_k2 = 0.3
  c.steps *= 4
  c.schedule.coef = {'kl_k2': ('linear', 0.3, 0.12, c.steps)}
  c.rollout.batch *= 2
  c.rollout.slots = c.rollout.batch
  c.rollout.group_size = 2  # the seats of a match
  base.hp(c, 'minibatch', 'minibatches', n=1)
  return base.finish(c)
