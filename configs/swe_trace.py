"""SWE-TRACE: changes of a rubric's score, compared at the same turn of a group.

Paper: SWE-TRACE: Optimizing Long-Horizon SWE Agents Through Rubric Process
Reward Models and Heuristic Test-Time Scaling, 2604.14820.

  p_t = sum_k w_k b_{k,t} in [0, 1],  b_{k,t} in {0, 1},  p_0 = 0
  R_t = sum_{u >= t} gamma^{u-t} (p_u - p_{u-1})
  A_t = z_group( outcome ) + eta z_{group, t}( R_t ),   eta = 0.5, gamma = 1

b_k are the criteria of a bug fix: localised, reproduced, minimal, tested,
honest. R_t is p at the end less p before the turn, so that turns that change
nothing add nothing to it. What trains is z, the comparison at the same turn, as
in the paper, which brings part of padding back: at turns t > 0 a padded attempt
still has changes ahead that a faster one has made, gains by it, and the faster
one loses. In bug_fixes a rule scores, which knows the wrong file and token and
sees a hack that the outcome pays for. Half of what is shown is hasty or a hack.

At test time the message of the best p is kept; ends have the task's own score:

  python -m experiments.search --workdir=runs/swe --searchers=lookahead

Details and constants are ours; lambda, the size of a change, drops out of z.
R_exec is left out of R_t: it is in z_group( outcome ). The paper's models write
rubrics and judge by a compressed memory; with `judged=rubric` one grades b in
[0, 1] by the conversation. Elsewhere p is a judge's, or the sum of `progress`.
Outcome alone, scores for changes:

  --config.coef.process=0.0
  --config.stream.process="('add_term', 'return_to_go', 'center', 'scale')"

Missing: repositories, a long warm start.

Expect fewer hacks (more `honest`) at equal success. Not measured yet.

  python -m experiments.train --config=configs/swe_trace.py --workdir=runs/swe
"""

from agentrl.configs import base

TURN = ('group', 'turn')


def get_config(arg=''):
  c = base.get_config(arg, method='swe_trace', env='bug_fixes')
  term = base.step_term(c)
  if c.env.name == 'bug_fixes':
    c.env.careless, term = 0.5, term if c.judge else 'rubric'
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
