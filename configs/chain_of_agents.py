"""Chain-of-Agents: one model imitates the trace of a team, then DAPO.

Paper: Chain-of-Agents: End-to-End Agent Foundation Models via Multi-Agent
Distillation and Agentic RL, 2508.13167.

  SFT:  -log pi(roles, notes, calls and answers),  tools' answers at weight 0
  A = (R - mean_group) / (std_group + eps), R = 1 for a right answer, no format
  clip 0.2 below and 0.28 above, dual clip 10, two tasks tried for one, no KL

The team is scripted (env.team): planner, searcher, reader and writer, whose
tags are notes in one trace; all of its traces are right, so that the paper's
filters have nothing to do. Its teams are language models with tools of the web
and of code. One agent's demonstrations in place of the team's:

  --config.env.team=False

Expect the team's trace to be imitated as well as the single agent's and to gain
as much from rewards, at more tokens (rollout/tokens). Not measured yet.

  python -m experiments.train --config=configs/chain_of_agents.py \
    --workdir=runs/chain_of_agents
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='chain_of_agents', env='fact_corpus')
  if c.env.name == 'fact_corpus':
    c.env.team = True
    c.rollout.max_message_tokens = max(c.rollout.max_message_tokens, 96)
  c.collect = 'dynamic_sampling'
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.loss = ('ppo_dual',)
  base.hp(c, 'ppo_dual', 'ppo_dual', clip_high=0.28, dual=10.0)
  return base.finish(c)
