"""SWE-TRACE: changes of a rubric's score, compared at the same turn of a group.

Paper: SWE-TRACE: Optimizing Long-Horizon SWE Agents Through Rubric Process
Reward Models and Heuristic Test-Time Scaling, 2604.14820.

  p_t = sum_k w_k b_{k,t} in [0, 1],  b_{k,t} in {0, 1},  p_0 = 0
  R_t = sum_{u >= t} gamma^{u-t} (p_u - p_{u-1})
  A_t = z_group( outcome ) + eta z_{group, t}( R_t ),   eta = 0.5, gamma = 1

b_k are the criteria of a bug fix: localised, reproduced, minimal, tested,
honest (the tests were left alone). Changes add up to p at the end less p before
the turn, so that turns that change nothing gain nothing; scores themselves
would pay for each turn again. In bug_fixes the rubric is a rule, which reads
what was done, remembers four flags of it and knows which file is wrong; so it
sees a hack that the outcome pays for. Demonstrations of every second task are
hasty or hack.

At test time several messages are sampled at each turn, the one of the best p is
kept and the others are pruned:

  python -m experiments.search --workdir=runs/swe_trace --calls=40 \
    --searchers=best_of_n,lookahead

That values an end by the outcome. The equations follow the abstract, where
details and constants are ours; the size lambda of a change drops out of z. In
the paper models write the rubric of each issue and judge by it. With
`judged=rubric` a model judges here, but reads the conversation, or its last
turns (`window`), in place of a compressed memory. Missing: real repositories,
and a warm start on 60k short verified trajectories. In other worlds p is a
judge's, or the sum of the `progress` there. The baselines, the outcome alone
and scores in place of changes:

  --config.coef.process=0.0
  --config.stream.process="('add_term', 'return_to_go', 'center', 'scale')"

Expect fewer hacks (a higher `honest`) than of the outcome alone at the same
success, and longer trajectories of scores. Neither has been measured.

  python -m experiments.train --config=configs/swe_trace.py \
    --workdir=runs/swe_trace
"""

from agentrl.configs import base

TURN = ('group', 'turn')


def get_config(arg=''):
  c = base.get_config(arg, method='swe_trace', env='bug_fixes')
  term = base.step_term(c)
  if c.env.name == 'bug_fixes':
    c.env.careless = 0.5
    term = term if c.judge else 'rubric'
  if 'rubric' in c.judge:
    base.hp(c, 'judge', 'rubric', unit='turn')
  c.advantage = ('episode', 'process')
  c.stream.episode = ('episode_outcome', 'center', 'scale')
  # `progress` is a change already.
  changes = ('differences',) if term != 'progress' else ()
  c.stream.process = ('add_term', *changes, 'return_to_go', 'center', 'scale')
  base.hp(c, 'process', 'add_term', name=term)
  for link in ('center', 'scale'):
    base.hp(c, 'process', link, by=TURN, unit='turn')
  c.coef.process = 0.5
  c.loss_aggregation.ppo = 'trajectory_mean'
  return base.finish(c)
