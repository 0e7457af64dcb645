"""BARFI: a helper reward, weighted by its agreement with the primary one.

Paper: Behavior Alignment via Reward Function Optimization, 2310.19007.

  r_phi = phi_0 + phi_1 r_env + phi_2 r_auxiliary
  phi climbs d J_env(theta + eta sum_i phi_i g_i) / d phi_i

where g_i is the policy gradient of term i alone. phi starts at (0, 1, 1), the
plain sum, and stays within 1. For language models only the last inner step is
differentiated and phi are three scalars: no implicit Hessian, no learned
discount, no state-dependent weights (agentrl/signal/barfi.py has what else is
approximate). The auxiliary term is the progress that the solver knows of, a
good helper; --config.hp.signal.blend.auxiliary=invalid names a misleading
one, whose weight (metric blend/auxiliary) should fall.

  python -m experiments.train --config=configs/barfi.py --workdir=runs/barfi
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='barfi')
  c.signal = ('blend',)
  c.model.attention = 'xla'  # forward mode, which attention in blocks lacks
  c.advantage = ('blend',)
  c.stream.blend = ('add_signal', 'return_to_go', 'center')
  base.hp(c, 'signal', 'blend', auxiliary=base.step_term(c))
  base.hp(c, 'blend', 'add_signal', name='blend')
  base.hp(c, 'blend', 'center', by=('group',), unit='turn')
  c.post = ('whiten',)
  base.hp(c, 'post', 'whiten', unit='turn')
  return base.finish(c)
