"""ADCA with `allocation`: the sign of the outcome, split by good and bad turns.

Paper: AgentEvolver: Towards Efficient Self-Evolving Agent System, 2511.10395.

  u_k = s w_k / sum_j w_j;  s = +-1 as solved or not;  w_k = 1 if the verdict
        on turn k agrees with s, else 0.2
  q_k = alpha z_group(u_k) + [k is the last turn] z_group(R),   alpha = 0.1
  A(a_k) = sum of q_j over j >= k

The shares of a trajectory add up to the sign of its outcome, so that a judge
can move credit between turns and not make any. Otherwise as adca.py.

  python -m experiments.train --config=configs/adca_allocation.py \
    --workdir=runs/adca_allocation
"""

from agentrl.configs import adca, base


def get_config(arg=''):
  c = base.get_config(arg, method='adca_allocation')
  adca.streams(c, ('share_outcome',))
  return base.finish(c)
