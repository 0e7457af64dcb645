"""Step-GRPO: every group is given the first k turns of a demonstration.

Paper: EmbodiedBrain: Expanding Performance Boundaries of Task Planning for
Embodied Intelligence, 2510.20578.

  k uniform on {0 .. n - 1}, one for a group; a demonstration has n turns
  A = z( sum r ) over the attempts at one task with one k

What is given is context: it is played in the environment and not trained on.
The paper gives the steps of a plan in the prompt and rewards the rest of the
plan by rules and a reward model; here they are played, and the environment
rewards what follows.

Expect long solutions to be learned from their end, where GRPO never sees one.

  python -m experiments.train --config=configs/step_grpo.py \\
    --workdir=runs/step_grpo
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='step_grpo')
  c.prefix = 'random_prefix'
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  for link in ('center', 'scale'):
    base.hp(c, 'episode', link, by=('group', 'prefix'))
  c.loss_aggregation.ppo = 'trajectory_mean'
  return base.finish(c)
