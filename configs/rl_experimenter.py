"""Game On: a model proposes skills, monitors their curves, builds a curriculum.

Paper: Game On: Towards Language Models as RL Experimenters, 2409.03402.

  library <- library + { k : the service says it has converged, the curve too }
  practice <- { k_1 k_2 ... : k_i in library }, or basic skills
  task ~ those of skills in practice alone;   A = z_group( R )

Every 2 updates a service reads how each skill fared in its newest updates and
which are in the library; it says what has converged and proposes what to
practise next (docs/TASKS.md). The curriculum is part of the checkpoint, and
evaluations attempt all held-out tasks.

In door codes a door is a basic skill and a task of three rooms a composition;
every list of one to three doors is as likely, so that two tasks in three have
three rooms, which guesses open once in 216 attempts. A small model learns in
stage `form` how to answer, on tasks with codes of their own. A function
proposes; a language model is yours to bring (service.proposer.address, and ''
as its function). Controls, the first two in the argument of the config:

  tasks=fixed            all tasks alike; tasks=difficulty_band  by success
  --config.service.proposer.function=agentrl.env.worlds.skill_proposer:propose_at_random
                         monitored alike, proposed at random

Where it differs: the paper's model reads plots, here a text of counts, and a
rule must agree that a curve has converged (hp.task.proposed_skills.confirm).
The parts of a proposal are checked, not executed one by one; skills are those
that tasks exist of. One policy goes on, where the paper trains anew.

Expect basic doors to be learned first, then two rooms. Seen so far, three
seeds: above each control, in intervals that hold 0
(docs/results/first_looks.md).

  python -m experiments.train --config=configs/rl_experimenter.py \
    --workdir=runs/rl_experimenter
"""

from agentrl.configs import base
from agentrl.env.worlds import skill_proposer

WORLD, ROOMS = 'door_codes', 3


def get_config(arg=''):
  c = base.get_config(arg, method='rl_experimenter', env=WORLD)
  c.reward, c.advantage = ('outcome',), ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  if not base.parse(arg)['tasks']:  # else it is a control
    c.task, c.memory = 'proposed_skills', ('skills',)
    path = f'{skill_proposer.__name__}:propose'
    base.service(c, 'proposer', function=path, message=512, context=4096)
  if c.env.name == WORLD:
    c.env.update(dict(codes=6, rooms=ROOMS, fewest=1, train=400))
    c.rollout.max_turns = ROOMS
    told = {'env.told': True, 'sft.batch': 64}  # as many tasks as in RL
    base.stage(c, 'form', kind='sft', steps=100, changes=told)
    c.stages = ('form', 'rl')
    if not c.model.path:
      c.role.policy.lr = 5e-3
  return base.finish(c)
