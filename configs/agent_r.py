"""Agent-R: SFT on failures that are cut at their first error and corrected.

Paper: Agent-R: Training Language Model Agents to Reflect via Iterative
Self-Training, 2501.11425.

  round r:  grow trees with pi_{r-1}, which also says of every turn whether it
            was good, bad or uncertain;  alpha = 0.5, 0.7, 0.8
            D_r = {a failure up to its first bad turn;  a correction;  a
                   success (outcome > alpha) from where the two parted}
            pi_r = argmin -log pi over D_r and the successes, from pi_{r-1}

Weights are 0 up to the bad turn and 1 behind it (edit 'splice_correction'). The
correction, 'wait', moves nothing in grids; what the success read follows it.

Verdicts are the policy's own with `checkpoint=DIR` or `judged=grade`, from
scratch the world's `progress` (judge 'column'). A group is a tree; its leaf of
most turns in common, before the bad one, corrects a failure. Alpha does nothing
where outcomes are 0 or 1. Successes alone: --config.mix.revised.weight=0.0

Missing: the general data that the paper mixes in.

Expect more recoveries than from SFT on successes (not measured yet), at equal
success. Seen so far, without trees, three seeds: -5.3 [-13.4, 2.9] points
(docs/results/first_looks.md).

  python -m experiments.train --config=configs/agent_r.py --workdir=runs/agent_r
"""

from agentrl.configs import base


def get_config(arg=''):
  judge = 'grade' if base.parse(arg)['checkpoint'] else 'column'
  c = base.get_config(arg, method='agent_r', judged=judge)
  if c.judge == ('column',):
    base.hp(c, 'judge', 'column', above=-1e-6)
  elif c.judge == ('grade',):
    base.hp(c, 'judge', 'grade', grades=('good', 'uncertain', 'bad'))
    c.service.judge.update(dict(role='policy', temperature=0.0))
  c.rollout.history, c.collect = 'full', 'tree_search'
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return',)
  c.loss = ('nll',)
  found = dict(kind='found', last=1)
  # A leaf of a tree repeats turns, which weigh in another's row.
  for name, edit in ('revised', 'splice_correction'), ('solved', 'keep_solved'):
    base.source(c, name, edits=('share_prefixes', edit), **found)
    base.hp(c, name, 'share_prefixes', power=0.0)
  at = {'term': base.JUDGED, 'bad': 0.0, 'max_turns': c.rollout.max_turns}
  base.hp(c, 'revised', 'splice_correction', **at)
  c.stages = ('sft',)
  steps, alone = max(1, c.steps // 3), {'minibatch': 'none', 'log.groups': -1}
  fit = {'sft.mix': ('revised', 'solved')}
  for r, good in enumerate((0.5, 0.7, 0.8), 1):  # alpha
    base.stage(c, f'sample_{r}', steps=steps, changes=alone)
    fit['hp.revised.splice_correction.good'] = good
    fit['hp.solved.keep_solved.above'] = good
    base.stage(c, f'fit_{r}', kind='sft', steps=steps, changes=fit)
    c.stages = (*c.stages, f'sample_{r}', f'fit_{r}')
  return base.finish(c)
