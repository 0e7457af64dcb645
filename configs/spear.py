"""SPEAR: stores trajectories that beat their group and imitates them later.

Paper: Learn the Ropes, Then Trust the Wins: Self-imitation with Progressive
Exploration for Agentic Reinforcement Learning, 2509.22601.

  L = L_now + gamma(s) L_replay;   gamma(s) = (1 - cos(pi s / 200)) / 2
  L_replay: PPO's clip on stored log-probs, where
            A = r - median of past groups' mean returns > 0

L_now is the paper's base: no KL, no group deviation, clip 0.2 / 0.28, sums
divided by a constant. Each step n trajectories of the pool of 512 (2048 in the
paper) come back; the released code waits until the pool is full and then
empties it. Left out: the covariance clip of replayed tokens (as in the
release, where it is commented out), the filters of the base, and the reward
for calling tools, as every turn here is a call.

  python -m experiments.train --config=configs/spear.py --workdir=runs/spear
"""

import math

from ml_collections import ConfigDict

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='spear')
  c.memory = (*c.memory, 'replay')
  c.advantage = ('episode', 'replay')
  c.stream.episode = ('episode_return', 'center')
  c.stream.replay = ('add_signal',)
  base.hp(c, 'replay', 'add_signal', name='replay.advantage')
  c.loss = ('ppo', 'imitate')
  base.hp(c, 'ppo', 'ppo', clip_high=0.28)
  c.select.ppo = ConfigDict(dict(source=0))
  c.select.imitate = ConfigDict(dict(source=1))
  for term in c.loss:
    c.loss_aggregation[term] = 'fixed'
    length = c.rollout.max_turns * c.rollout.max_message_tokens
    base.hp(c, term, 'fixed', length=length)
  c.schedule.coef = ConfigDict(dict(imitate=('cosine', 0.0, 1.0, 200)))
  c = base.finish(c)
  if c.rollout.history == 'full':  # a row each, of what comes back too
    rows = c.rollout.batch + c.hp.memory.replay.n
    c.micro_batch = math.gcd(c.micro_batch, rows)
  return c
