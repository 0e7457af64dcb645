"""TD-PRM whose target is the outcome: its control without bootstrapping.

Not in a paper; a control for td_prm.py, a variant of OPRL (2509.19199). All is
as there but for the target,

  V(h_k) + delta(h_k, a_k)  ~  R

so that phi, V, data and steps are the same and nothing passes from one
trajectory to another. What td_prm.py does better than this is due to
temporal differences.

  python -m experiments.train --config=configs/td_prm_outcome.py \
    --workdir=runs/td_prm_outcome
"""

from agentrl.configs import base, td_prm


def get_config(arg=''):
  c = base.get_config(arg, method='td_prm_outcome')
  td_prm.value(c)
  td_prm.phi(c)
  c.signal = ('td_prm_by_outcome',)
  td_prm.streams(c, 'td_prm.step')
  return base.finish(c)
