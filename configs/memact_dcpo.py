"""DCPO of MemAct: the policy drops turns of its own context, and is trained.

Paper: Memory as Action: Autonomous Context Curation for Long-Horizon Agentic
Tasks, 2510.12635.

  c_i+1 = c_i without the turns that a call of pi(. | c_i) names
  A = (R - mean_group) / std_group for all segments of a trajectory;
  loss = mean over trajectories of the mean over their tokens

An edit of the context breaks its prefix: behind it stands another segment of
the trajectory's row, with the context that it was sampled in, in which only
what was new is trained. Weights do not depend on the number of segments, and
without an edit the gradient is the one of grpo.py on whole histories. The
environment is lookups: long pages, read one after the other, which do not fit
the context together.

Departures: the paper's call names records by random marks and holds the summary
as an argument; here turns are numbered, and the note is what the message says
beside the call, which stays as it was sampled. The first segments come from a
warm start on an expert that notes and drops. In jittable worlds no context is
edited: every turn is a segment of one observation, as in grpo.py.

Arms, with the same calls and answers (agentrl/rollout/edits.py):
  --config.edits.arm=ignored   nothing is dropped: ends where room does
  --config.edits.arm=window    the oldest turns go where there is no room
  --config.edits.arm=ignored --config.rollout.context=0   full history

  python -m experiments.train --config=configs/memact_dcpo.py \
    --workdir=runs/memact_dcpo
"""

from agentrl.configs import base, envs


def get_config(arg=''):
  c = base.get_config(arg, method='memact_dcpo', env='lookups')
  if envs.in_jit(c.env.name):
    c.rollout.history, c.rollout.window = 'turn', 1
  else:
    c.rollout.history = 'edit'
  if c.env.name == 'lookups':
    c.env.drops, c.rollout.max_turns = True, 8
    c.rollout.context = 186  # two pages and the room to answer are longer
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.loss_aggregation.ppo = 'trajectory_mean'
  return base.finish(c)
