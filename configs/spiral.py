"""SPIRAL: self-play of one policy in both seats, with a baseline per role.

Paper: SPIRAL: Self-Play on Zero-Sum Games Incentivizes Reasoning via
Multi-Agent Multi-Turn Reinforcement Learning, 2506.24119.

  A_p = R_p - b_p,   then  b_p <- 0.95 b_p + 0.05 R_p,   b_p = 0 at first

p is the seat; every turn of a seat gets its A, and a message that names no
legal move gives the match up: -1.5 to that seat, +0.5 to the other.

Where it differs: one game, Kuhn poker, in place of three; the reward is what
was won in chips, not its sign, so that learning to play is learning to be
unexploitable; one sub-update where the code has two epochs; play begins from
uniform moves.

Missing: thoughts, for the model is small, and what the paper asks, whether
reasoning transfers to mathematics. Asked here is how far the policy is from an
equilibrium (eval/exploitability).

  no baseline       --config.stream.episode="('episode_return',)"
  fixed opponent    --config.env.opponent=random

  python -m experiments.train --config=configs/spiral.py --workdir=runs/spiral
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='spiral', env='kuhn_poker')
  c.memory = (*c.memory, 'role_baseline')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'less_role_baseline')
  c.rollout.group_size = 2  # the seats of a match
  base.hp(c, 'minibatch', 'minibatches', n=1)
  return base.finish(c)
