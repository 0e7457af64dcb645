"""KAT-Coder: SFT without failed calls, turns of trees weighing once, then RL.

Report: KAT-Coder Technical Report, 2510.18779.

  R(y) = max_j sim(y, y*_j)                            several ground truths
  L = -sum_k [call k did not fail] log pi(m_k | c_k) / n_k
      n_k: trajectories that begin with turns 0 to k

Trajectories are sampled as trees (collect 'branch') after the warm start;
those that are solved are fitted with failed calls masked (`faults`, edit
'drop_turns') and every turn of a tree once (edit 'share_prefixes'); then GRPO.
Every expression that reaches the target in countdown is a ground truth, so that
R is what its grader says. The report's stages before that, on code at large,
are left out, its equations are ours where it has none, and its trees are of
sub-agents and shortened contexts where these are of branches. The baselines,
plain SFT and prefixes that weigh as often as they have leaves:

  --config.mix.found.edits="('keep_solved', 'share_prefixes')"
  --config.hp.found.share_prefixes.power=0.0

Expect fewer failed calls after the masked stage (rollout/faults).

  python -m experiments.train --config=configs/kat_coder.py \
    --workdir=runs/kat_coder
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='kat_coder', env='countdown')
  if c.env.name == 'countdown':  # so that some of it is solved
    c.sft.update(dict(steps=2 * c.sft.steps, batch=64))
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  edits = ('keep_solved', 'share_prefixes', 'drop_turns')
  base.source(c, 'found', kind='found', last=1, edits=edits)
  failed = 'faults' if c.env.name == 'countdown' else 'invalid'
  base.hp(c, 'found', 'drop_turns', term=failed)
  steps = max(1, c.steps // 8)
  trees = {'collect': 'branch', 'minibatch': 'none', 'log.groups': -1}
  base.stage(c, 'trees', steps=steps, changes=trees)
  fit = {'sft.mix': ('found',)}
  base.stage(c, 'masked', kind='sft', steps=steps, changes=fit)
  c.stages = ('sft', 'trees', 'masked', 'rl')
  return base.finish(c)
