"""PRS and VSPO: a ladder of stages, and tasks sampled again by their value.

Paper: Enhancing Agentic RL with Progressive Reward Shaping and Value-based
Sampling Policy Optimization, 2512.07478.

  R = 0, 0.1 or 0.2 + 0.8 Q, as in prs.py
  V = p (1 - p) of a group, p its mean R;   0 where all have the same R
  groups of V = 0 make room for groups at tasks drawn ~ V / sum V
  A = z_group( R ) clip(V / mean V, 0.8, 1.2)

The abstract has no formulas; these are ours. The paper draws by running
statistics, here V is that of this step's groups, so that nothing is stale and
a step costs twice the sampling of prs.py, as dapo.py's does. rollout/success is
that of what was kept.

Expect fewer steps to a given success than prs.py at equal attempts where most
groups are all solved or all failed, and no gain where few are.

  python -m experiments.train --config=configs/prs_vspo.py \
    --workdir=runs/prs_vspo
"""

from agentrl.configs import base, prs


def get_config(arg=''):
  c = prs.get_config(arg)
  c.method = 'prs_vspo'
  c.collect = 'value_sampling'
  c.stream.episode = (*c.stream.episode, 'scale_by_task_value')
  return base.finish(c)
