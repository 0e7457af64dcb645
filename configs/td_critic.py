"""TD-PRM without its PRM: the critic's temporal differences as step rewards.

Not in a paper; a control for td_prm.py, and so for OPRL (2509.19199). V learns
as there and is all there is:

  V(h_k)  ~  stop V(h_k+1), and R at the last turn;   r_k = V(h_k+1) - V(h_k)

The reward knows what became of the action, but not what becomes of it on
average. What td_prm.py does better than this is due to phi.

  python -m experiments.train --config=configs/td_critic.py \
    --workdir=runs/td_critic
"""

from agentrl.configs import base, td_prm


def get_config(arg=''):
  c = base.get_config(arg, method='td_critic')
  td_prm.value(c)
  c.signal = ('td_error',)
  td_prm.streams(c, 'td_error.step')
  return base.finish(c)
