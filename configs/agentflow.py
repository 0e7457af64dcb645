r"""AgentFlow: a planner is trained in the flow of three frozen modules.

Paper: In-the-Flow Agentic System Optimization for Effective Planning and Tool
Use, 2510.05592.

  planner: tool > executor: its argument > verifier: enough? > generator: answer
     ^                                        | no
     +----------------------------------------+
  A = z_group( outcome ), on every turn of the planner
  loss = 1/G sum_i 1/T_i sum_t 1/|a_t| sum_l ppo + 0.001 KL(pi || ref)

The task is to look up a chain of facts (env workflow). All four read one
record: the question, what was said, and what was found. Executor, verifier and
generator are taught their parts by the warm start and are frozen then, one
network for the three; demonstrations of the planner name any tool. So the
outcome of a match is all that a planner learns from, on each of its turns.

Where it differs: no thoughts, a record of letters, and three
tries at most, each of one tool.

  planner that is taught too   --config.env.untaught='()'

  python -m experiments.train --config=configs/agentflow.py \
    --workdir=runs/agentflow
"""

from agentrl.configs import base, flow_grpo


def get_config(arg=''):
  c = base.get_config(arg, method='agentflow', env='workflow')
  if c.env.name == 'workflow':
    c.env.roles = (
      'planner*3 tool',
      'executor*3 argument',
      'verifier*3 verdict',
      'generator answer',
    )
    c.env.order = (
      'planner executor',
      'executor verifier',
      'verifier:n planner',
      'verifier generator',
    )
    c.env.untaught = ('planner',)
  base.role(c, 'modules', kind='frozen')
  c.rollout.seats = ('policy', 'modules', 'modules', 'modules')
  c.rollout.group_size = 32  # eight matches of four seats
  flow_grpo.broadcast(c)
  for link in ('center', 'scale'):
    base.hp(c, 'episode', link, by=('group', 'agent'))
  return base.finish(c)
