"""Tool-Star: a bonus for several tools, where the answer is right.

Paper: Tool-Star: Empowering LLM-Brained Multi-Tool Reasoner via Reinforcement
Learning, 2505.16410.

  R = -1 where a message was not understood, else
      outcome + 0.1 if it is solved with both tools

  rl           GRPO: A = z_group( R )
  self_critic  DPO: the attempt of a group with the largest R against the one
               with the smallest, pi_ref the policy as the stage begins

Tools are those of the world, named by the terms that count their calls: here
the retrievers of the corpus of facts.

The policy learns the rules of the reward from its own answers, right ones with
one tool against right ones with both among them. The paper alternates the two
and fits the pairs of many tasks at once; here they follow each other once, and
pairs are of each batch.

Expect more trajectories with several tools than of the flat reward, among the
solved ones only. Not measured yet.

  python -m experiments.train --config=configs/tool_star.py \
    --workdir=runs/tool_star
"""

from agentrl.configs import base

CRITIC = {
  'signal': ('reference',),
  'curate': ('opposite_ranks',),
  'loss': ('dpo',),
  'hp.minibatch.minibatches.unit': 'group',
}


def get_config(arg=''):
  c = base.get_config(arg, method='tool_star', env='fact_corpus')
  if 'retrievers' in c.env:
    c.env.retrievers = 'bm25 graph'
  c.reward = ('gated_or_penalty', 'multi_tool_bonus')
  base.hp(c, 'reward', 'multi_tool_bonus', tools=('calls_bm25', 'calls_graph'))
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  base.role(c, 'reference', kind='frozen')
  base.stage(c, 'self_critic', steps=max(1, c.steps // 4), changes=CRITIC)
  c.stages = ('sft', 'rl', 'self_critic')
  return base.finish(c)
