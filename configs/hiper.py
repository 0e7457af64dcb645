"""HiPER: hierarchical advantages of actions, subgoals and subgoal switches.

Paper: HiPER: Hierarchical Reinforcement Learning with Explicit Credit
Assignment for Large Language Model Agents, 2602.16165.

  A_low  GAE over the turns of a segment, ending in V_high of the next one
  A_high GAE over segments, gamma^d lambda_seg, d the segment's turns
  A_switch = (s - beta) (V_high - V_low), s = 1 where it switched, else 0,
             beta the probability of switching

each whitened by itself, on the tokens of the action, of a segment's first
subgoal, and of the decision (agentrl/advantage/hierarchical.py); two value
heads. A_switch is the paper's; configs/hiper_released.py has the code's. V_low
is read before the message, where the code reads it after the subgoal.

Messages read `yes left > left`: a new subgoal, left, and an action. The warm
start takes runs of equal moves for subgoals, so the window shows the exchange
before. gamma = lambda = 1 and lambda_seg = 0.95. Left out: penalties for
keeping (use a term of its own), the KL term, and the bootstrap of cut
trajectories, whose last observation no rollout keeps.

  python -m experiments.train --config=configs/hiper.py --workdir=runs/hiper
"""

from agentrl.configs import base


def levels(c, signal, heads):
  """Sets parts of messages, a critic of `heads` values, actions, subgoals."""
  c.rollout.kind = 'options'
  c.rollout.update(dict(action_prefix='>', max_message_tokens=5, window=2))
  base.role(c, 'value', lr=1e-3, heads=heads)
  c.signal = (signal,)
  base.hp(c, 'signal', signal, clip=2.0)
  c.advantage = ('low', 'high', 'switch')
  c.stream.low = ('turn_reward', 'hae_low')
  c.stream.high = ('turn_reward', 'hae_high')


def get_config(arg=''):
  c = base.get_config(arg, method='hiper')
  levels(c, 'low_and_high', 2)
  c.stream.switch = ('hae_switch_gain',)
  return base.finish(c)
