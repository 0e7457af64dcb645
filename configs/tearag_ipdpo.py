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

Sums are over what the policy wrote. A fit's reference is the policy before it.

Where it differs: retrieval is by PageRank on a graph of passages and terms, one
passage for each call; sim is ROUGE-L of words, not a reranker's; thresholds and
weights are ours. Demonstrations search in detours, so that right paths differ
in length, and write no notes, so that the paper's third matching, with the
summary of a step, has no text (hp.judge.evidence_coverage.parts). Pairs by the
answer alone: --config.mix.paired.edits="('in_pairs',)".

Expect as many right answers as of such pairs, in fewer messages each. Not
measured yet.

  python -m experiments.train --config=configs/tearag_ipdpo.py --workdir=runs/t
"""

from agentrl.configs import base

ROUNDS = 3


def get_config(arg=''):
  c = base.get_config(arg, method='tearag_ipdpo', env='fact_corpus')
  if 'careful' in c.env:
    c.env.update(dict(retrievers='graph', careful=0.5))
    c.rollout.max_turns = max(c.rollout.max_turns, 7)
  c.judge = ('evidence_coverage',)
  base.hp(c, 'judge', 'evidence_coverage', parts=('query', 'context'))
  c.advantage = ('episode',)  # for metrics alone
  c.stream.episode = ('episode_return',)
  base.pair_rounds(c, ROUNDS, 'process_pairs', loss=('dpo', 'winner_nll'))
  return base.finish(c)
