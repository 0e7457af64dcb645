"""TeaRAG: three rounds of DPO on paths that cover the evidence in few steps.

Paper: TeaRAG: A Token-Efficient Agentic Retrieval-Augmented Generation
Framework, 2511.05385; its iterative process-aware DPO (IP-DPO).

  R_p = sum_e m_e / (|E| n),  m_e = mean over the query and the context of a
        step of max over n steps of sim(e, .);  F1 / n for questions of one hop
  round r:  sample 8 paths per question with pi_{r-1}
            chosen    F1 > 0.5, all messages understood, R_p > 0.2
            rejected  not understood; or F1 <= 0.5; or R_p lower by > 0.05
            pi_r = argmin -log sigmoid( beta (r_win - r_lose) ) - m_win
            r = sum log pi - log pi_{r-1},  m_win = mean log pi of the chosen

Sums are over what the policy wrote; what it retrieved is masked. `sample_r`
trains nothing and logs all, `fit_r` reads the pairs of the stage before it
(edit 'process_pairs'), and its reference is the policy as it begins. The best
path of a question is paired with worse ones, each kind in turn.

Retrieval is by personalised PageRank on a graph of passages and terms, with
restarts at the passages of most terms of the query, one passage for each call.
The paper weighs the query by 1 and its entities by 0.5, and shows 5 passages
or triplets. Demonstrations search in detours too, so that right paths differ in
length. They write no notes, so that the paper's third matching, with the
summary of a step, has no text:

  --config.env.careful=0.0 --config.env.notes \
  --config.rollout.max_message_tokens=96 \
  --config.hp.judge.evidence_coverage.parts="('query', 'context', 'summary')"

sim is ROUGE-L of words, not a reranker. Thresholds and weights are ours. Pairs
by the answer alone, DPO on outcomes:

  --config.mix.paired.edits="('in_pairs',)"

Expect as many right answers as of outcome pairs, in fewer messages each
(eval/turns_solved).

  python -m experiments.train --config=configs/tearag_ipdpo.py \
    --workdir=runs/tearag_ipdpo
"""

from agentrl.configs import base

ROUNDS = 3
FIT = {
  'curate': ('as_listed',),
  'hp.minibatch.minibatches.n': 1,
  'loss': ('dpo', 'winner_nll'),
  'sft.mix': ('paired',),
  'sft.pairs': True,
  'signal': ('reference',),
}


def get_config(arg=''):
  c = base.get_config(arg, method='tearag_ipdpo', env='fact_corpus')
  if 'careful' in c.env:
    c.env.update(dict(retrievers='graph', careful=0.5))
    c.rollout.max_turns = max(c.rollout.max_turns, 7)
  c.judge = ('evidence_coverage',)
  base.hp(c, 'judge', 'evidence_coverage', parts=('query', 'context'))
  c.advantage = ('episode',)  # for metrics alone
  c.stream.episode = ('episode_return',)
  base.role(c, 'reference', kind='frozen')
  base.source(c, 'paired', kind='found', last=1, edits=('process_pairs',))
  steps = max(1, c.steps // ROUNDS)
  c.stages = ('sft',)
  alone = {'minibatch': 'none', 'log.groups': -1}
  rate = c.role.policy
  fit = FIT | {'sft.lr': rate.lr, 'sft.warmup': rate.warmup}
  for r in range(1, ROUNDS + 1):
    base.stage(c, f'sample_{r}', steps=steps, changes=alone)
    base.stage(c, f'fit_{r}', kind='sft', steps=steps, changes=fit)
    c.stages = (*c.stages, f'sample_{r}', f'fit_{r}')
  return base.finish(c)
