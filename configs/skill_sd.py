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

It plays door codes (docs/ENVIRONMENTS.md): a small model learns to read skills
of other codes (stage `follow`), then the policy learns the lasting ones. A
function writes skills, in the paper a language model; in other environments a
skill is a golden workflow, the messages of a group's shortest solution. With
doors lambda is 1, since 0.001 is not seen in so few steps.

Expect as much of skills as the teacher makes of them. Seen so far, one seed and
16 steps of `tiny`, whose teacher followed 70% of its notes: from 0.36 to 0.58,
but to 0.56 without skills, and to 0.45 with shuffled ones.

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
  c.coef.kl_k3_weighted = 1.0
  base.service(c, 'writer', function=f'{door_codes.__name__}:lesson')
  base.hp(c, 'memory', 'texts', write='service', service='writer', capacity=16)
  base.hp(c, 'recall', 'ucb', least=0.5, tokens=16, heading=door_codes.HEADING)
  base.follow_notes(c, 30, lr=5e-3)
  return base.finish(c)
