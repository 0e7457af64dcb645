"""SPEAR: stores trajectories that beat their group and imitates them later.

Paper: Learn the Ropes, Then Trust the Wins: Self-imitation with Progressive
Exploration for Agentic Reinforcement Learning, 2509.22601.

  L = L_now + gamma(s) L_replay;   gamma(s) = (1 - cos(pi s / 200)) / 2
  L_replay: PPO's clip on stored log-probs, where
            A = r - median of past groups' mean returns > 0,
            without a random 2% of the tokens of 1 < covariance < 40
  L_now:    A = x - mean_group x,
            x = R + (1 + cos(pi s / 200)) / 2 min(0.1 calls, 1)

L_now is the paper's base: no KL, no group deviation, clip 0.2 / 0.28, sums
divided by a constant, the three quarters of groups whose returns deviate most.
The reward for calls is there where the world has tools; the median is of R
alone. Each step n trajectories of the pool of 512 (2048 in the paper) come
back. The released code waits until the pool is full and then empties it: set
c.memory to ('replay_when_full',); its covariance clip is commented out, which
is the loss `imitate`. Left out: the base's filters of unfinished and unreadable
trajectories; where running out of turns is how one fails, they would leave
solutions alone.

  python -m experiments.train --config=configs/spear.py --workdir=runs/spear
"""

from agentrl.configs import base, envs


def get_config(arg=''):
  c = base.get_config(arg, method='spear')
  base.replay(c, 'replay')
  c.curate = ('most_varied',)
  base.hp(c, 'curate', 'most_varied', share=0.75)
  c.advantage = ('episode', 'replay')
  c.stream.episode = ('episode_return', 'center')
  c.stream.replay = ('add_signal',)
  base.hp(c, 'replay', 'add_signal', name='replay.advantage')
  c.schedule.coef = {'imitate_clip_cov': ('cosine', 0.0, 1.0, 200)}
  if 'calls' in envs.terms(c):
    c.advantage = (*c.advantage, 'calls')
    c.stream.calls = ('add_bounded_sum', 'center')
    c.schedule.coef.calls = ('cosine', 1.0, 0.0, 200)
  c.loss = ('ppo', 'imitate_clip_cov')
  base.hp(c, 'ppo', 'ppo', clip_high=0.28)
  c.select.ppo = {'source': 0}
  c.select.imitate_clip_cov = {'source': 1}
  for term in c.loss:
    c.loss_aggregation[term] = 'fixed'
    length = c.rollout.max_turns * c.rollout.max_message_tokens
    base.hp(c, term, 'fixed', length=length)
  return base.finish(c)
