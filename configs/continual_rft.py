"""Continual RFT: tasks one after the other, and what is forgotten of each.

Report: Reinforcement Fine-Tuning Naturally Mitigates Forgetting in Continual
Post-Training, 2507.05386.

  warm start on all tasks;  then task 1, task 2, task 3, one stage each
  forgetting of task i = success on i at the end of stage i - at the last end

The stages are Sokoban, FrozenLake and Bifurcation; all three are evaluated at
every stage's end (eval/first/success, ...), and the summary shows the table.
The warm start is a mixture of demonstrations of the three, in place of a
pretrained model that knows all of them a little. Reinforcement is GRPO, with a
KL term to the policy as the stage began that weighs 0. The report's other
sides:

  SFT      --config.stage.second.kind=sft --config.stage.third.kind=sft
  with KL  --config.coef.kl_k3=0.01

Expect stages of SFT to lose more of the tasks before them than those of RFT,
with the KL term or without.

  python -m experiments.train --config=configs/continual_rft.py \
    --workdir=runs/continual_rft
"""

from agentrl.configs import base

WORLDS = {'second': 'frozen_lake', 'third': 'bifurcation'}


def get_config(arg=''):
  c = base.get_config(arg, method='continual_rft')
  base.role(c, 'reference', kind='frozen')
  c.signal = ('reference',)
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.loss = ('ppo', 'kl_k3')
  c.coef.kl_k3 = 0.0
  steps = max(1, c.steps // 3)
  names = ('first', *WORLDS)
  for name in names:
    world = {'env.name': WORLDS[name]} if name in WORLDS else {}
    base.stage(c, name, steps=steps, changes=world)
    base.source(c, f'of_{name}', of=name)
  c.stages = names
  if c.sft.steps:  # none for a pretrained model
    warm = {'sft.mix': tuple(f'of_{name}' for name in names)}
    base.stage(c, 'warm', kind='sft', steps=c.sft.steps, changes=warm)
    c.stages = ('warm', *names)
  return base.finish(c)
