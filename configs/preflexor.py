"""PRefLexOR: odds of own answers first, then DPO that masks the thinking.

Paper: PRefLexOR: Preference-based Recursive Language Modeling for Exploratory
Optimization of Reasoning and Agentic Thinking, 2410.12375.

  integrate  ORPO: -m_win - lambda log sigmoid(log odds_win - log odds_lose),
             m = mean log pi over all that was said; no reference
  reason     DPO over what stands outside of the thoughts, of both halves:
             -log sigmoid( beta (r_win - r_lose) ), pi_ref the policy as the
             stage begins

Pairs are made on the fly: of a group the attempt of highest return and the one
of lowest, thrown away after the step. Only answers and calls are compared in
`reason`, each after its own thought, so that thinking is free to differ.

Missing: a language model that writes questions and retrieves what a winner is
made of; winners and losers are the policy's own, and questions are of the
corpus of facts. EXO in place of DPO and the recursive critic at inference are
left out.

Expect dpo/accuracy above one half and thoughts to change less in `reason` than
without its mask, --config.stage.reason.post='()'. Not measured yet.

  python -m experiments.train --config=configs/preflexor.py \
    --workdir=runs/preflexor
"""

from agentrl.configs import base, dpo


def get_config(arg=''):
  c = base.get_config(arg, method='preflexor', env='fact_corpus')
  if 'thoughts' in c.env:
    c.env.thoughts = True
    c.rollout.max_message_tokens = max(c.rollout.max_message_tokens, 96)
  base.role(c, 'reference', kind='frozen')
  dpo.preferences(c, 'orpo')
  steps = max(1, c.steps // 2)
  base.stage(c, 'integrate', steps=steps)
  reason = dict(loss=('dpo',), signal=('reference',), post=('without_span',))
  base.stage(c, 'reason', steps=steps, changes=reason)
  c.stages = ('sft', 'integrate', 'reason')
  return base.finish(c)
