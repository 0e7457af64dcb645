"""Compaction study: what a summary is worth, and what training it adds.

Protocol; seeds from 100 on chose sizes and rates, seeds 0 to 4 were measured.
Every arm of a seed begins with one policy: a supervised warm start that has
seen summaries, cut short on purpose. Then all arms have the
same number of updates, attempts and tokens of a summary, and the same lengths
of conversations. What is compared is `eval/success` after the last update, on
one panel of held-out tasks.
"""

from agentrl.lab.study import warm_arms

DESIGN = warm_arms.Design(
  config='configs/compaction_rl.py:env=carried_code',
  arms={
    arm: {'compaction.summary': arm}
    for arm in ('own', 'masked', 'shuffled', 'none')
  },
  claims={
    'What a summary says in its order is used': ('own', 'shuffled'),
    'The world needs a memory': ('own', 'none'),
    'Training the summary adds to training all else': ('own', 'masked'),
    'A summary that is not trained is used': ('masked', 'shuffled'),
  },
  sizes={
    'model.width': 32,
    'model.head_dim': 8,
    'model.mlp': 96,
    'rollout.batch': 64,
    'micro_batch': 64,
    'sft.batch': 64,
    'eval.episodes': 500,
    'env.test': 100,
  },
  warm={'sft.steps': 200, 'sft.lr': 4e-3, 'steps': 0},
  learn={'steps': 60, 'role.policy.lr': 2e-3},
  shown={'turns that are summaries': 'rollout/summary'},
)
