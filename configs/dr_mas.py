"""Dr. MAS with one model: statistics per agent.

Paper: Dr. MAS: Stable Reinforcement Learning for Multi-Agent LLM Systems,
2602.08847.

  A(a_k) = (R - mean_{group, agent}) / (std_{group, agent} + 1e-6)

R is the trajectory's return; every turn of an agent counts once, so an agent
called only in hard cases is compared with itself. The code's penalty of 0.1 for
an invalid message is c.reward = ('env', 'invalid').

Agents are the seats of an environment that has some, such as env=kuhn_poker.
In one without seats this is GRPO in which longer trajectories weigh more in the
mean.

dr_mas_models has a model for each agent.

  python -m experiments.train --config=configs/dr_mas.py \
    --workdir=runs/dr_mas
"""

from agentrl.configs import base, envs


def get_config(arg=''):
  c = base.get_config(arg, method='dr_mas')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  for link in ('center', 'scale'):
    base.hp(c, 'episode', link, by=envs.same_seat(c), unit='turn')
  return base.finish(c)
