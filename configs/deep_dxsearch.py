"""Deep-DxSearch: reference to like cases, search and diagnosis as one reward.

Paper: End-to-End Agentic RAG System Training for Traceable Diagnostic
Reasoning (Deep-DxSearch), 2508.15746.

  R = 0.8 refer + 0.05 search + 0.15 answer,   A = z_group( R )

R is 0 where a message was not understood, the trajectory did not come to an
answer, or cases were matched more than three times.

  refer   1 where a case of the disease was shown, less 1/2 if the last match of
          several lacks it, less 1/2 if a query changed less than two symptoms;
          where none was shown 0.2 for two matches and 0.4 for three, 0 if a
          query hardly changed
  search  (share of the disease's words in what was searched for)^(1/3), 0 with
          more than ten diseases
  answer  the same share in the answer

The weights are the released code's: four fifths are for finding a case like the
patient's. Cases and patients are drawn from one table of diseases, and a match
is BM25 over their symptoms; the paper's are records of hospitals.

Expect reference to rise first, and more right answers than of the answer alone:

  --config.hp.reward.gated_or_penalty.weights="(0.0, 0.0, 1.0)"

Seen so far, three seeds: -2.2 [-11.8, 7.5] points of success
(docs/results/first_looks.md).

  python -m experiments.train --config=configs/deep_dxsearch.py \
    --workdir=runs/deep_dxsearch
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='deep_dxsearch', env='case_corpus')
  c.reward = ('gated_or_penalty',)
  base.hp(
    c,
    'reward',
    'gated_or_penalty',
    terms=('refer', 'searched', 'named'),
    weights=(0.8, 0.05, 0.15),
    gates=('invalid', 'excess'),
    scales=(-1.0, -1.0),
    thresholds=(0.0, 0.0),
    penalty=0.0,
  )
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  return base.finish(c)
