"""TD-PRM whose PRM and value learn from turns of earlier iterations, too.

Not in a paper; a variant of td_prm.py, and so of OPRL (2509.19199):

  phi, V: td_prm.py's targets over this iteration's trajectories and n of those
          sampled at most `age` steps ago, drawn anew in each iteration
  policy: its advantages over this iteration's turns alone

A target of one step needs no importance weights: which action was played does
not matter to what it led to. V is then a mean over the policies of the last
`age` steps, hence the bound. n is hp.memory.experience_replay.n, one batch by
default.

Expect PRM and value to have less noise at equal environment steps, and more
seconds a step than td_prm.py.

  python -m experiments.train --config=configs/td_prm_replay.py \
    --workdir=runs/td_prm_replay
"""

from agentrl.configs import base, td_prm


def get_config(arg=''):
  c = td_prm.get_config(arg)
  c.method = 'td_prm_replay'
  base.replay_beside(c, 'ppo')
  return base.finish(c)
