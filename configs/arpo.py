"""ARPO: branches rollouts at turns of high entropy.

Paper: Agentic Reinforced Policy Optimization, 2507.19849.

  a turn is branched from if clip(u - 0.2 dH, 0, 1) < 0.5, u uniform,
  dH = H_turn - H_first turn;   A = z_group(R) on every leaf

A turn that branches share stands in the batch once: it gets the mean of its
leaves' advantages (average) and weighs as many times as it has leaves
(leaf_weight). Where nothing is clipped that is the paper's soft attribution,
in which every leaf trains its own copy; configs/arpo_hard.py weighs it once.
Half of a group is sampled first. Entropies are those of the whole message and
of all tokens, in nats; the code takes the first tokens after a tool's answer,
of them the ten likeliest, over log V. Expect GRPO's curve.

  python -m experiments.train --config=configs/arpo.py --workdir=runs/arpo
"""

from agentrl.configs import base


def branched(c):
  """Sets up GRPO on trees, whose shared turns get the mean of their leaves."""
  c.collect = 'branch'
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale', 'average')


def get_config(arg=''):
  c = base.get_config(arg, method='arpo')
  branched(c)
  c.post = ('leaf_weight',)
  return base.finish(c)
