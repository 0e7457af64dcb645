"""MiRA: subgoals to act by, and milestone rewards beside the environment's.

Paper: A Subgoal-driven Framework for Improving Long-Horizon LLM Agents,
2603.19685.

  o_k ends with the next subgoal that is open (env.subgoals)
  r_k = r_env,k + lambda (gamma m_k - m_k-1),   lambda = 1, gamma = 1
  delta_k = r_k + V_k+1 - V_k;   A_k = delta_k + 0.95 A_k+1, whitened

A question's subgoals are the facts that lead to its answer, in their order,
then to answer: the world writes them and sees which are reached, in the paper
two language models. A step is named once those before it are reached, in
training and in evaluation. m_k is the share of subgoals reached by turn k
(`progress`, summed); it never falls, so that each pays once. We found neither
the paper's constants nor its actor update: the potential form and the
turn-level GAE of ppo_turn.py are our reading. m is not set to 0 at the end, so
what was reached stays paid and half-done attempts are worth something, which is
the method's point and a bias.

With `judged=milestones` a service says in which turn each fact was reached. In
other worlds nobody writes subgoals, and m is the most `progress` reached beyond
the start, in the limit of many milestones. Without the plan, and without the
milestones:

  --config.env.subgoals=False
  --config.hp.turn.add_term.coef=0.0

Expect evidence to be read in order early, and questions of more hops solved
than from the outcome alone. Seen so far, three seeds: +0.9 [-5.1, 6.9] points
of success (docs/results/first_looks.md).

  python -m experiments.train --config=configs/mira.py --workdir=runs/mira
"""

from agentrl.configs import base, ppo


def get_config(arg=''):
  c = base.get_config(arg, method='mira', env='fact_corpus')
  if 'subgoals' in c.env:
    c.env.update(dict(subgoals=True, max_hops=3))
    c.host.max_observation_tokens = 72
  ppo.critic(c)
  c.advantage = ('turn',)
  c.stream.turn = ('add_term', 'new_best', 'turn_reward', 'gae_turns')
  base.hp(c, 'turn', 'add_term', name=base.step_term(c), coef=1.0)
  c.post = ('whiten',)
  base.hp(c, 'post', 'whiten', unit='turn')
  return base.finish(c)
