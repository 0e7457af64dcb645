"""HGPO: compares steps in nested groups of equal state and history.

Paper: Hierarchy-of-Groups Policy Optimization for Long-Horizon Agentic Tasks,
2602.22817.

  A(a_t) = sum over k = 0..K of w_k z_k( sum over j >= t of gamma^(j-t) r_j ),
           w_k ~ (k + 1)^alpha,   K = 2, alpha = 1, gamma = 0.95

z_k compares the steps of a task's group whose state and the k states before
it are the same, with the population's deviation; a level in which a step is
alone, or all are equal, has no weight. There is no episode stream. The code
counts k from 1 (hp.step.scale_history.first = 2); its `mean_norm` mode is the
link 'center_history'. With depth 0 this is GiGPO's step advantage.

States are hashes of what was observed. The policy sees only the last
observation here, so that histories differ without its knowing; to show it
what is compared, as in the paper, set --config.rollout.window=3.

Expect GiGPO's curve or better where states are seen again.

  python -m experiments.train --config=configs/hgpo.py --workdir=runs/hgpo
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='hgpo')
  c.advantage = ('step',)
  c.stream.step = ('step_return', 'scale_history')
  base.hp(c, 'step', 'step_return', gamma=0.95)
  base.hp(c, 'step', 'scale_history', depth=2, alpha=1.0)
  return base.finish(c)
