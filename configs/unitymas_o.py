r"""UnityMAS-O: a workflow of roles and who shares parameters, by config.

Paper: UnityMAS-O: A General RL Optimization Framework for LLM-Based Multi-Agent
Systems, 2605.26646.

  R_node = R_match + 0.2 r_role + 0.1 r_turn
  A_node = z of R_node over the nodes of its task, role and invocation

A node is a message: a role and which time it speaks. Roles, order, what each
reads and what it is paid are lines of c.env (docs/ENVIRONMENTS.md, Workflows);
c.rollout.seats names the parameters of each. Here a planner names what to look
up, a searcher looks it up, and an answerer closes; two of them share a policy.
R_match is whether the answer is right, r_role how many of the role's messages
were right, r_turn whether this one was.

  planner alone   --config.rollout.seats="('policy', 'answerer', 'answerer')"
  all share one   --config=configs/dr_mas.py:env=workflow, with these lines

Where it differs: a record of letters in place of passages; each policy learns
from its nodes by the clipped loss in one program.

  python -m experiments.train --config=configs/unitymas_o.py \
    --workdir=runs/unitymas_o
"""

from agentrl.configs import base, pretrained


def lookups(c):
  """Has a planner name what a searcher looks up, and an answerer close."""
  c.env.roles = 'planner*3 tool stop', 'searcher*2 argument', 'answerer answer'
  c.env.order = (
    'planner:. answerer',
    'planner searcher',
    'planner answerer',
    'searcher planner',
  )
  c.env.untaught = ('planner',)


def get_config(arg=''):
  c = base.get_config(arg, method='unitymas_o', env='workflow')
  if c.env.name == 'workflow':
    lookups(c)
    c.env.pay = tuple(
      f'{name} outcome own*0.2' for name in ('planner', 'searcher', 'answerer')
    )
  base.role(c, 'answerer', lr=pretrained.SCRATCH_LR)
  c.rollout.seats = ('policy', 'policy', 'answerer')
  c.rollout.update(dict(batch=96, group_size=24, slots=48))
  c.sft.batch = 32 * 3
  c.advantage = ('node',)
  c.stream.node = ('episode_return', 'add_term', 'center', 'scale')
  base.hp(c, 'node', 'add_term', name='right', coef=0.1)
  for link in ('center', 'scale'):
    base.hp(c, 'node', link, by=('group', 'agent', 'turn'), unit='turn')
  return base.finish(c)
