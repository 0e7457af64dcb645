"""INSPO: GRPO under instructions that evolve beside the policy.

Paper: Agentic Policy Optimization via Instruction-Policy Co-Evolution,
2512.01945.

  I ~ exp( m_I / T ) for each group,   y ~ pi( . | I, x ),   T 0.05
  A = z( R of the group ), all of one task and one instruction
  m_I  what readers of I earn: mean of their returns, earlier ones counting 0.9
       as much after every update, and of 16 readers who earn the mean of all

Every 2 updates a service reads the instructions with what they earned and
attempts under the best one, failures first, and proposes another. One that was
never tried is drawn as often as the best; in a full population the one of the
lowest m_I makes room, one that was never tried only before the best, and the
first stays. Evaluations read the best.

It plays door codes (docs/ENVIRONMENTS.md): an instruction is a code for every
door, the first has one right, and a function changes a code that failed. A
small model learns in the stage `follow` to do what an instruction says, on
tasks with codes of their own. In other environments on hosts the policy itself
proposes; a better model has an address (base.service). Controls:

  --config.hp.memory.texts.every=1000000    the first instruction alone
  --config.hp.recall.rewarded.arm=empty     GRPO without instructions
  --config.service.writer.function=agentrl.env.worlds.door_codes:blind_rewrite
                                            proposals that read nothing
  --config.role.policy.lr=0.0               instructions alone evolve

Where it differs: constants are ours; proposals are verified by groups that are
trained on, not by a batch of their own; it reads the last batch, not a buffer.

Expect more than of the first instruction alone, and not more than without
instructions where the policy can learn what they tell: with `tiny`, two seeds
and 40 steps success on 500 held-out episodes rose from 0.33 and 0.35 to 0.67
and 0.65, with the first instruction alone it fell to 0.28 and 0.30, and without
instructions it rose to 0.74 and 0.99 (measured while the share solved decided
what makes room). The policy there does what a true instruction says in two
thirds of cases and always the same, so that few groups have anything to
compare.

  python -m experiments.train --config=configs/inspo.py --workdir=runs/inspo
"""

from agentrl.configs import base
from agentrl.env.worlds import door_codes

ASK = (
  'Attempts under the instruction that earned most. Add one new instruction'
  ' under which they would have been solved.'
)


def get_config(arg=''):
  world = 'door_codes'
  c = base.get_config(arg, method='inspo', env=world)
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.memory, c.recall = ('texts',), 'rewarded'
  writes = dict(write='service', service='writer', contrast=False)
  asks = dict(about='batch', every=2, operations=1, instruction=ASK)
  kept = dict(capacity=8, decay=0.9)
  base.hp(c, 'memory', 'texts', **writes, **asks, **kept)
  if c.env.name != world:
    base.service(c, 'writer', role='policy', message=64)
    first = 'Think before you act.'
    base.hp(c, 'memory', 'texts', first=(first,))
    base.hp(c, 'recall', 'rewarded', heading='')
    return base.finish(c)
  base.service(c, 'writer', function=f'{door_codes.__name__}:rewrite')
  first = '\n'.join(door_codes.note(i, 1) for i in range(c.env.doors))
  base.hp(c, 'memory', 'texts', first=(first,))
  base.hp(c, 'recall', 'rewarded', tokens=32, heading=door_codes.HEADING)
  base.follow_notes(c, 40, {'hp.recall.rewarded.arm': 'empty'}, lr=5e-3)
  return base.finish(c)
