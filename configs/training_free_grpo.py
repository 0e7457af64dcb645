"""Training-Free GRPO: what a group teaches is written down, no parameter moves.

Paper: Training-Free Group Relative Policy Optimization, 2510.08191.

  E <- operations( group, E )   for groups with 0 < mean R < 1
  y ~ pi( . | E, x ),           pi is never updated

A group's attempts and the list E go to a service, which answers with ADD,
UPDATE, DELETE and NOOP; operations of a batch are applied in the order of its
groups, and every later attempt reads the whole list (recall 'whole'). The paper
summarizes each attempt, compares them and merges a batch's operations in calls
of their own; here it is one call for each group, and equal texts are merged.

It plays door codes (docs/ENVIRONMENTS.md), where only experience tells the
right answer. A small model learns to follow notes in the stage `follow`, on
tasks with codes of their own, and then stays as it is; the service is a
function that compares attempts. In other environments on hosts the policy
itself writes; a better model has an address (base.service). Controls:

  --config.hp.recall.whole.arm=empty                          an empty list
  --config.service.writer.function=agentrl.env.worlds.door_codes:shuffled_lesson
                                                 notes of another door each

A third, the same calls spent on attempts without a list, is the first with a
larger rollout.group_size: a policy that stays as it is solves no more.

Expect success to rise from chance to what the policy makes of a true note in
two or three steps. Seen so far, after ten: 99 to 100% on three seeds of five,
and 33 and 34% on two that had not learned to follow notes; 30 to 38% with an
empty list (docs/results/training_free.md).

  python -m experiments.train --config=configs/training_free_grpo.py \
    --workdir=runs/training_free_grpo
"""

from agentrl.configs import base
from agentrl.env.worlds import door_codes


def get_config(arg=''):
  world = 'door_codes'
  c = base.get_config(arg, method='training_free_grpo', env=world)
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.minibatch = 'none'  # so that both are computed, and move nothing
  del c.hp.minibatch
  c.memory, c.recall = ('texts',), 'whole'
  base.hp(c, 'memory', 'texts', write='service', service='writer', capacity=16)
  if c.env.name != world:
    base.service(c, 'writer', role='policy', message=64)
    return base.finish(c)
  base.service(c, 'writer', function=f'{door_codes.__name__}:lesson')
  base.hp(c, 'recall', 'whole', tokens=32, heading=door_codes.HEADING)
  base.follow_notes(c, 6, {'hp.recall.whole.arm': 'empty'})
  return base.finish(c)
