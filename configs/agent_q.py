"""Agent Q: DPO on pairs of siblings in search trees.

Paper: Agent Q: Advanced Reasoning and Learning for Autonomous AI Agents,
2408.07199.

  select   argmax Q~(h, a) + c sqrt( log N(h) / (1 + N(h, a)) )
  back up  Q = mean return of the trajectories that pass (h, a)
  Q~       alpha Q + (1 - alpha) Q^, Q^ the place of a among its siblings by a
           critique
  learn    -log sigmoid( beta (r_win - r_lose) ) over siblings with
           |Q~ - Q~'| > margin, r = log pi - log pi_behaviour of one message

A group is one tree, grown in rounds (c.collect); a turn that branches share is
in the batch once. The reference is the policy that sampled (old_logp), as in
the paper, whose replay buffer keeps its log-probs.

The paper's critique is the model's own ranking of actions. Where the
environment knows the progress of a turn that is read in its place; in a host
environment a judge gives it, as with --config=configs/agent_q.py:env=countdown,
judged=number, and c.service.judge.role='policy' makes it the policy itself.

Missing: actions that the critique rejects before they are tried, and a buffer
of earlier iterations.

Expect DPO's curve with more pairs from each group: pair accuracy starts at one
half, and success rises more slowly than GRPO's. Not measured yet.

  python -m experiments.train --config=configs/agent_q.py --workdir=runs/agent_q
"""

from agentrl.configs import base, dpo

SEARCH = dict(alpha=0.5)


def get_config(arg=''):
  c = base.get_config(arg, method='agent_q')
  c.collect = 'tree_search'
  critique = (base.step_term(c),)
  base.hp(c, 'collect', 'tree_search', critique=critique, **SEARCH)
  dpo.preferences(c, curate='node_pairs', reference='old_logp')
  base.hp(c, 'curate', 'node_pairs', critique=critique, **SEARCH)
  return base.finish(c)
