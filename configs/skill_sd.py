"""Skill-SD: GRPO, and a pull to the same policy that has read a skill.

Paper: Skill-SD: Skill-Conditioned Self-Distillation for Multi-turn LLM Agents,
2604.10674.

  L = L_GRPO + lambda mean rho (exp(-l) - 1 + l),  lambda 0.001
  l = log pi(y_t | x) - log pi_s(y_t | x, S(x)),  rho = pi / pi_old
  S(x) = argmax over skills of tasks like x:  m + c sqrt(log N / n)

  pi_s the policy as it was when the iteration began: it is synchronised every
  iteration. rho makes the mean gradient that of the reverse KL (kl_k3_weighted)

Skills are written about attempts at training tasks into a bank (memory
'texts'), of which a bandit draws (recall 'ucb'): m is the mean return of the n
attempts whose teacher read the skill. It stands before the teacher's rows
alone (reading 'memory'); the policy plays the plain prompt. An empty bank, or a
task like no other, pulls nothing. Controls:

  --config.hp.recall.ucb.arm=empty        skills are written and not read
  --config.hp.recall.ucb.arm=shuffled     each in the place of another

It plays door codes (docs/ENVIRONMENTS.md), where a skill says what experience
alone tells. In the stage `follow` a small model learns to read skills, of tasks
with codes of their own; then the policy learns the lasting codes. A function
writes the skills; in the paper it is a language model, whose summary has what
worked, what failed and a golden workflow. In other environments a skill is the
golden workflow itself, the messages of a group's shortest solution.

Where it differs: lambda is 1 with doors, where a pull of 0.001 is not seen in
so few steps; elsewhere skills are of the same task alone, as those of another
one solve it no more.

Expect as much of skills as the teacher makes of them, and less than nothing of
those of other doors. With `tiny`, one seed, a stage `follow` of 1500 steps
after which a model follows 70% of its notes, and 16 steps: success rises from
0.36 to 0.58 on 400 attempts, to 0.56 without skills and 0.45 with shuffled
ones. With nine codes a teacher that followed 51% held the policy back: 0.65,
and 0.79 without.

  python -m experiments.train --config=configs/skill_sd.py \
    --workdir=runs/skill_sd
"""

from agentrl.configs import base
from agentrl.env.worlds import door_codes


def get_config(arg=''):
  world = 'door_codes'
  c = base.get_config(arg, method='skill_sd', env=world)
  base.reading(c, 'hinted', source='memory')
  c.signal = ('reference',)
  base.hp(c, 'signal', 'reference', role='policy', reading='hinted')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.loss = ('ppo', 'kl_k3_weighted')
  c.coef.kl_k3_weighted = 1e-3
  c.memory, c.recall = ('texts',), 'ucb'
  if c.env.name != world:
    base.hp(c, 'recall', 'ucb', least=0.99, heading='What worked:')
    return base.finish(c)
  c.env.numbered = False
  c.coef.kl_k3_weighted, c.role.policy.lr = 1.0, 5e-3
  base.service(c, 'writer', function=f'{door_codes.__name__}:lesson')
  base.hp(c, 'memory', 'texts', write='service', service='writer', capacity=16)
  base.hp(c, 'recall', 'ucb', least=0.5, tokens=16, heading=door_codes.HEADING)
  c.model.update(dict(positions=0, theta=100.0))  # it looks skills up sooner
  told = {'env.told': True, 'env.train': 20_000}  # with skills of their own
  told |= {'sft.batch': 64, 'sft.lr': 5e-3}
  base.stage(c, 'follow', kind='sft', steps=3000, changes=told)
  c.stages, c.steps = ('follow', 'rl'), 30
  return base.finish(c)
