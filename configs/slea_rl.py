"""SLEA-RL: every turn reads what earlier attempts learned of what it observes.

Paper: SLEA-RL: Step-Level Experience Augmented Reinforcement Learning for
Multi-Turn Agentic Training, 2603.18079.

  a_t ~ pi( . | o_t, E(o_t) ),   E(o_t) the entries most like o_t
  A(a_t) = z_group( sum r ) + omega z_cluster( sum over k >= t of
           gamma^(k-t) r_k ),   omega = 1, gamma = 0.95

Before every turn the library is compared with the observation (recall
'observed'); what is read stands in the prompt that the turn is sampled and
trained on. After every update a service writes entries about groups that have
solved and failed. Turns of a group in one cluster of observations are compared
with each other; on hosts a cluster is one text, so that the credit is gigpo.py.

It plays door codes in three rooms (docs/ENVIRONMENTS.md): what the second door
is is seen by those who have opened the first, so that what is read at the start
tells nothing of it. A small model learns to read notes in the stage `follow`,
on tasks with codes of their own, and a function writes them; elsewhere the
policy does. Inside jit nothing is read and a cluster is a hash of half of the
observation's places: credit alone. Controls:

  --config.hp.recall.observed.every=episode   read once, by the first room
  --config.hp.recall.observed.arm=empty       written and not read
  --config.hp.recall.observed.arm=shuffled    each in the place of another

Where it differs: likeness is of n-grams and not of embeddings, and one entry is
read, from the start, not two that worked and one that failed.

Expect turns that read to open all rooms, others a third. Not measured yet.

  python -m experiments.train --config=configs/slea_rl.py \
    --workdir=runs/slea_rl
"""

from agentrl.configs import base, envs, gigpo
from agentrl.env.worlds import door_codes

ROOMS = 3


def get_config(arg=''):
  world = 'door_codes'
  c = gigpo.get_config(','.join(filter(None, (f'env={world}', arg))))
  c.method = 'slea_rl'
  if envs.in_jit(c.env.name):
    c.rollout.state_hash_fraction = 0.5
    return c
  c.memory, c.recall = ('texts',), 'observed'
  base.hp(c, 'memory', 'texts', write='service', service='writer')
  if c.env.name != world:
    base.service(c, 'writer', role='policy', message=64)
    return base.finish(c)
  c.env.update(dict(rooms=ROOMS, numbered=False))
  c.rollout.update(dict(max_turns=ROOMS, history='turn'))
  base.service(c, 'writer', function=f'{door_codes.__name__}:lesson')
  base.hp(c, 'memory', 'texts', capacity=16, operations=ROOMS)
  base.hp(c, 'recall', 'observed', tokens=16, heading=door_codes.HEADING)
  base.follow_notes(c, 30, {'env.rooms': 1})
  return base.finish(c)
