"""RAFT: imitates the best of each group and drops the others.

Paper: RAFT: Reward rAnked FineTuning for Generative Foundation Model
Alignment, 2304.06767.

  -log pi on the trajectories of largest return in their group

All that share the largest return are kept, the paper keeps one. A group in
which nobody did well is imitated, too; hp.episode.imitate_best.threshold drops
it. Nothing is pushed away: expect entropy to fall fast.

  python -m experiments.train --config=configs/raft.py --workdir=runs/raft
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='raft')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'imitate_best')
  base.hp(c, 'episode', 'imitate_best', by=('group',), threshold=-1e6)
  c.loss = ('nll',)
  return base.finish(c)
