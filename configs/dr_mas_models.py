"""Dr. MAS with a model for each agent, and statistics per agent.

Paper: Dr. MAS: Stable Reinforcement Learning for Multi-Agent LLM Systems,
2602.08847.

  A(a_k) = (R - mean_{group, agent}) / (std_{group, agent} + 1e-6)

As dr_mas, with a solver and a verifier of their own parameters, optimizers and
rates, each trained on its own turns. The solver answers once or twice and the
verifier once, since the last answer is not verified: every turn of an agent
counts once in its mean, and what one agent gets does not move the other's.

Where it differs: each agent gets its own reward, the truth of its answer or of
its verdict; sums that a small model learns.

  one model         --config=configs/dr_mas.py:env=solver_verifier

  python -m experiments.train --config=configs/dr_mas_models.py \
    --workdir=runs/dr_mas_models
"""

from agentrl.configs import base, pretrained


def get_config(arg=''):
  c = base.get_config(arg, method='dr_mas_models', env='solver_verifier')
  base.role(c, 'verifier', lr=pretrained.SCRATCH_LR)
  c.rollout.seats = ('policy', 'verifier')
  c.rollout.group_size = 16  # eight matches
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  for link in ('center', 'scale'):
    base.hp(c, 'episode', link, by=('group', 'agent'), unit='turn')
  return base.finish(c)
