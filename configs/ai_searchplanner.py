r"""AI-SearchPlanner: a small planner searches for a generator that is frozen.

Paper: AI-SearchPlanner: Modular Agentic Search via Pareto-Optimal
Multi-Objective Reinforcement Learning, 2508.20368.

  R = right(q, what was found) - right(q, nothing)   gain over no search
      + 0.2 x share of the planner's messages that were called for
      - cost x searches

The generator is asked twice in a match: first without a search, an answer that
no role reads and that its second one is compared with. Facts of relation a are
always the same, and it knows them by heart from the warm start; facts of b have
to be searched for. So a planner has to find out what the generator lacks. PPO
trains the planner; the generator never changes.

Where it differs: the answer without a search is sampled anew in every match,
not cached (the means are equal), and there is no plain retrieval beside it;
what was called for is known, not rated by a model; R is not mapped to [0, 1].

  a front of gain and searches   --config.env.cost=0.0 (0.2, 0.4, 0.8)

Expect no searches where they cost more than an answer gains. Not measured yet.

  python -m experiments.train --config=configs/ai_searchplanner.py \
    --workdir=runs/ai_searchplanner
"""

from agentrl.configs import base, ppo


def get_config(arg=''):
  c = base.get_config(arg, method='ai_searchplanner', env='workflow')
  if c.env.name == 'workflow':
    c.env.roles = (
      'generator.unaided answer',
      'planner*3 search stop',
      'generator answer',
    )
    c.env.order = (
      'generator.unaided planner',
      'planner:. generator',
      'planner planner',
      'planner generator',
    )
    c.env.hidden = (
      'planner generator.unaided',
      'generator generator.unaided',
    )
    c.env.pay = ('planner gain own*0.2 cost',)
    c.env.untaught = ('planner',)
    c.env.known, c.env.cost = 1, 0.1
  base.role(c, 'generator', kind='frozen')
  c.rollout.seats = ('generator', 'policy', 'generator')
  c.rollout.update(dict(batch=96, group_size=3, slots=48))
  c.sft.batch = 32 * 3
  ppo.critic(c)
  c.advantage = ('token',)
  c.stream.token = ('turn_reward', 'gae_tokens')
  c.post = ('whiten_tokens',)
  return base.finish(c)
