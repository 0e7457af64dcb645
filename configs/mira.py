"""MiRA: PPO with milestone shaping rewards beside the environment's.

Paper: A Subgoal-driven Framework for Improving Long-Horizon LLM Agents,
2603.19685.

  r_k = r_env,k + lambda (gamma m_k - m_k-1),   lambda = 1, gamma = 1
  delta_k = r_k + V_k+1 - V_k;   A_k = delta_k + 0.95 A_k+1, whitened

m_k is the share of milestones reached by turn k; it never falls, so that each
pays once. We found neither the paper's constants nor its actor update: the
potential form and the turn-level GAE of ppo_turn.py are our reading. m is not
set to 0 at the end, so what was reached stays paid and half-done attempts are
worth something, which is the method's point and a bias.

Milestones here come from `progress`, the solver's truth: m is the most value
reached beyond the start, in the limit of many milestones. With
`judged=milestones` a service says in which turn each was reached. Planning at
inference time and the writing of subgoals are left out.

  python -m experiments.train --config=configs/mira.py --workdir=runs/mira
"""

from agentrl.configs import base, ppo


def get_config(arg=''):
  c = base.get_config(arg, method='mira')
  ppo.critic(c)
  c.advantage = ('turn',)
  c.stream.turn = ('add_term', 'new_best', 'turn_reward', 'gae_turns')
  base.hp(c, 'turn', 'add_term', name=base.step_term(c), coef=1.0)
  c.post = ('whiten',)
  base.hp(c, 'post', 'whiten', unit='turn')
  return base.finish(c)
