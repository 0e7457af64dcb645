"""InfoPO: rewards a turn for how its observation changes the next message.

Paper: InfoPO: Information-Driven Policy Optimization for User-Centric Agents,
2603.00656.

  i_k = mean_t [ log pi(y_t | h, o_k) - log pi(y_t | h, nothing) ],
        y the message of turn k + 1, o_k the answer to turn k
  A(a_k) = z_group(R) + beta g z_group(i_k),   g = sigmoid(-sigma / T)

sigma is the deviation of the group's outcomes: where they are all equal,
information alone is learned from, at half its size. The last turn, that
nobody answers to, has none. Beta = 0.3 and T = 0.25 are ours: the paper's
were not found. The second reading costs one more forward pass.

The reading is made by the rollout (rollout.null_observation, the text that
stands for an observation). With one observation a turn, as in games, h is empty
and the policy is blind in it; --config.rollout.history=full keeps h, at as many
rows as turns, and host environments do so by default. In games that show all of
their state, information is no more than that the policy looks; the method is
for tasks that must be asked for, such as those of a user with hidden slots.

  python -m experiments.train --config=configs/infopo.py:env=hidden_slots \
    --workdir=runs/infopo
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='infopo')
  c.rollout.null_observation = 'nothing'
  c.signal = ('information',)
  c.advantage = ('episode', 'information')
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.stream.information = (
    'add_signal',
    'standardize_followed',
    'gate_by_spread',
  )
  base.hp(c, 'information', 'add_signal', name='information')
  base.hp(c, 'information', 'gate_by_spread', temperature=0.25)
  c.coef.information = 0.3
  return base.finish(c)
