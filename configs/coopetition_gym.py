"""Coopetition-Gym: two seats that depend on one another, paid in three ways.

Paper: Coopetition-Gym v1: A Formally Grounded Platform for Mixed-Motive
Multi-Agent Reinforcement Learning under Strategic Coopetition; payoffs of TR-1,
2510.18802.

  U_i = pi_i + w_ij pi_j,   w = 0 private, D_ij integrated, 1 cooperative
  A_i = (U_i - mean_{deal, seat}) / std_{deal, seat}

pi and the interdependence D are in docs/ENVIRONMENTS.md (Coopetition). One
policy plays both seats, each a conversation that does not see the other's move.
Payment is told apart from what is measured: whoever is paid how, `welfare` is
what both earn privately over the most they could, `level` what they invest, and
eval/exploitability what a best response gains of what is paid, 0 at an
equilibrium.

  paid privately   --config.env.mode=private
  paid together    --config.env.mode=cooperative
  against the least equilibrium of pure moves   --config.env.opponent=optimal

Missing: all but one of the platform's twenty games; and rounds, with trust,
reputation and reciprocity between them. The game is played once, with ten
levels and 27 deals.

Expect exploitability near 0 in all three, and more investment and welfare from
private to integrated to cooperative payment. Seen so far: one seed, paid
privately, from .161 after the warm start to .004 in 120 steps. The two other
payments are not measured yet.

  python -m experiments.train --config=configs/coopetition_gym.py \
    --workdir=runs/coopetition_gym
"""

from agentrl.configs import base, envs


def get_config(arg=''):
  c = base.get_config(arg, method='coopetition_gym', env='coopetition')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  for link in ('center', 'scale'):
    base.hp(c, 'episode', link, by=envs.same_seat(c))
  return base.finish(c)
