"""TreePS-RAG: values turns of a tree by the leaves below them.

Paper: TreePS-RAG: Tree-based Process Supervision for Reinforcement Learning in
Agentic RAG, 2601.06922.

  V(n) = mean return of the trajectories that pass turn n
  A(n) = (V(n) - V(parent)) + (V(n) - V(root)), z-scored over the tree's turns

A turn that trajectories share counts once, in the statistics and in the loss.
The paper's abstract is all we have: the z-score is our reading. A group is
sampled in part, then branched where the entropy rises (c.collect); the paper
grows trees of searches level by level. hp.tree.tree_advantage.shrink=1 pulls
values that few leaves tell towards the parent's.

Missing: nodes that are pruned because their documents overlap.

Expect GRPO's curve. Not measured yet.

  python -m experiments.train --config=configs/treeps_rag.py \
    --workdir=runs/treeps_rag
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='treeps_rag')
  c.collect = 'branch'
  c.advantage = ('tree',)
  c.stream.tree = ('episode_return', 'tree_advantage', 'center', 'scale')
  base.hp(c, 'tree', 'center', unit='node')
  base.hp(c, 'tree', 'scale', unit='node')
  return base.finish(c)
