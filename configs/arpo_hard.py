"""ARPO with hard attribution: a shared turn is trained on once.

Paper: Agentic Reinforced Policy Optimization, 2507.19849.

  A_shared = mean over its leaves of z_group(R)

The rest is configs/arpo.py, where a shared turn weighs as many times as it
has leaves.

  python -m experiments.train --config=configs/arpo_hard.py \
    --workdir=runs/arpo_hard
"""

from agentrl.configs import arpo, base


def get_config(arg=''):
  c = base.get_config(arg, method='arpo_hard')
  arpo.branched(c)
  return base.finish(c)
