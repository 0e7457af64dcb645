"""INSPO: GRPO under instructions that evolve beside the policy.

Paper: Agentic Policy Optimization via Instruction-Policy Co-Evolution,
2512.01945.

  I ~ exp( m_I / 0.05 ) for each group,   y ~ pi( . | I, x )
  A = z( R of the group ), all of one task and one instruction
  m_I  mean return of readers, those of an update counting 0.9 as much after the
       next, and of 16 who earn the mean of all

Every 2 updates a service reads what instructions earned and failures of the
best, and proposes another. An untried one is drawn as often as the best; where
all places are taken the lowest m_I makes room. Evaluations read the best.

In door codes an instruction is a code for every door; the first has one right.
A small model learns to follow it in stage `follow`, and a function proposes;
elsewhere on hosts the policy does. Controls, the third with blind proposals:

  --config.hp.memory.texts.every=1000000    the first instruction alone
  --config.hp.recall.rewarded.arm=empty     GRPO without instructions
  --config.service.writer.function=agentrl.env.worlds.door_codes:blind_rewrite
  --config.role.policy.lr=0.0               instructions alone evolve

Where it differs: proposals are verified by groups that are trained on, not by a
batch of their own; the service reads the last batch, not a buffer.

Expect more than of the first instruction alone. Seen so far, two seeds: 0.67
and 0.65 against 0.28 and 0.30, but 0.74 and 0.99 without any (docs/MEMORY.md).

  python -m experiments.train --config=configs/inspo.py --workdir=runs/inspo
"""

import functools

from agentrl.configs import base
from agentrl.env.worlds import door_codes

ASK = 'Add an instruction under which these attempts would have been solved.'


def get_config(arg=''):
  world = 'door_codes'
  c = base.get_config(arg, method='inspo', env=world)
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.memory, c.recall = ('texts',), 'rewarded'
  hp = functools.partial(base.hp, c, 'memory', 'texts')
  hp(write='service', service='writer', contrast=False, capacity=8, decay=0.9)
  hp(about='batch', every=2, operations=1, instruction=ASK)
  if c.env.name != world:
    base.service(c, 'writer', role='policy', message=64)
    hp(first=('Think before you act.',))
    base.hp(c, 'recall', 'rewarded', heading='')
    return base.finish(c)
  base.service(c, 'writer', function=f'{door_codes.__name__}:rewrite')
  first = '\n'.join(door_codes.note(i, 1) for i in range(c.env.doors))
  hp(first=(first,))
  base.hp(c, 'recall', 'rewarded', tokens=32, heading=door_codes.HEADING)
  base.follow_notes(c, 40, {'hp.recall.rewarded.arm': 'empty'}, lr=5e-3)
  return base.finish(c)
