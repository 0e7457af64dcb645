"""KAT-Coder: SFT without failed calls, turns of trees weighing once, then RL.

Report: KAT-Coder Technical Report, 2510.18779.

  R(y) = max_j sim(y, y*_j)                            several ground truths
  L = -sum_k [message k is no failed call] log pi(m_k | c_k) / n_k
      n_k: trajectories that begin with turns 0 to k

Trajectories are sampled as trees (collect 'branch') after the warm start; those
that are solved are fitted with every turn of a tree once (edit
'share_prefixes') and without messages whose call failed or that neither call
nor answer (edit 'drop_turns'); then GRPO on R. In countdown the y*_j are all
expressions that reach the target, such as 7+12 and 12+7, and sim is ROUGE-L of
symbols (`similarity`, docs/ENVIRONMENTS.md): 12-7 has two of three right.
Success is exact. In other worlds R is the world's reward.

Equations are ours where the report has none, and its trees are of sub-agents
and shortened contexts where these are of branches. The baselines: plain SFT,
prefixes that weigh as often as they have leaves, and one 0/1 grader:

  --config.mix.found.edits="('keep_solved', 'share_prefixes')"
  --config.hp.found.share_prefixes.power=0.0
  --config.reward="('env',)"

Missing: the report's stages before the warm start, on code at large.

Expect fewer failed calls after the masked stage (rollout/faults), and an
earlier rise of success by R than by the grader. Seen so far, three seeds: +0.2
[-6.8, 7.1] points of success (docs/results/first_looks.md).

  python -m experiments.train --config=configs/kat_coder.py \
    --workdir=runs/kat_coder
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='kat_coder', env='countdown')
  failed = ('invalid',)
  if c.env.name == 'countdown':
    c.sft.update(dict(steps=420 * bool(c.sft.steps), batch=64))  # solves some
    c.reward = ('weighted',)
    base.hp(c, 'reward', 'weighted', terms=('similarity',), weights=(1.0,))
    failed = ('faults', 'invalid')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  edits = ('keep_solved', 'share_prefixes', 'drop_turns')
  base.source(c, 'found', kind='found', last=1, edits=edits)
  base.hp(c, 'found', 'drop_turns', terms=failed)
  steps = max(1, c.steps // 8)
  trees = {'collect': 'branch', 'minibatch': 'none', 'log.groups': -1}
  base.stage(c, 'trees', steps=steps, changes=trees)
  fit = {'sft.mix': ('found',)}
  base.stage(c, 'masked', kind='sft', steps=steps, changes=fit)
  c.stages = ('sft', 'trees', 'masked', 'rl')
  return base.finish(c)
