"""CompactionRL: the policy writes its own summary and is trained on it.

Papers: CompactionRL, 2607.05378, of which only a summary by others was at hand,
so that its constants are not known to us; and Scaling LLM Multi-turn RL with
End-to-end Summarization-based Context Management (SUPO), 2510.06727, which has
the same gradient.

  c_1 = task, ...;   z_i ~ pi(. | c_i, request);   c_i+1 = task, z_i, ...
  A = (R - mean_group) / std_group for all tokens of a trajectory, z_i too

A conversation whose next prompt would exceed a length begins anew behind a
summary z_i, a turn of its own with a reward of 0, which the reward at the end
reaches. Each c_i is a segment of the trajectory's row, and the loss is the mean
over trajectories of the mean over their tokens, so that weights do not depend
on how often one was compacted. The length is drawn per task from
compaction.threshold: a group shares it, and the policy cannot count on one.

Departures: SUPO leaves trajectories that do not end out of the loss; here one
that was compacted compaction.most times ends at its length, unsolved. The
environment is errands: what is told early is asked late, and nothing can be
asked again. With :env=carried_code all of it runs inside jit.

Arms, of equal length and sampling (agentrl/rollout/compaction.py):
  --config.compaction.summary=masked    it is written, and has weight 0
  --config.compaction.summary=shuffled  placebo: its tokens in another order
  --config.compaction.summary=none      what came before is dropped
  --config.compaction.keep_task=False   the summary must carry the task, too

Expect the masked arm to stay where the warm start left its summaries, and the
placebo and none at chance for what was told before the last segment. Seen so
far, in carried_code: 97%, 87 (masked), 8 (placebo) and 0% (none); not measured
yet in errands, the default (docs/results/compaction.md).

  python -m experiments.train --config=configs/compaction_rl.py \
    --workdir=runs/compaction_rl
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='compaction_rl', env='errands')
  if c.env.name == 'errands':
    c.env.people = 6
    c.rollout.update(dict(history='compact', max_turns=12))
    c.rollout.max_message_tokens = 20
    c.compaction.update(
      dict(threshold=(66, 80), tokens=20, most=3, request='Note?')
    )
  if c.env.name == 'carried_code':
    c.rollout.update(dict(history='compact', max_turns=10))
    c.compaction.update(
      dict(threshold=(26, 32), tokens=4, most=3, request='look')
    )
    c.compaction.keep_task = False
    c.env.update(dict(fillers=4, length=4))
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.loss_aggregation.ppo = 'trajectory_mean'
  return base.finish(c)
