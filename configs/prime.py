"""PRIME: token-level rewards of an implicit PRM, added to the outcome.

Paper: Process Reinforcement through Implicit Rewards, 2502.01456.

  r_t = beta (log phi - log ref)(a_t), phi fitted by cross-entropy of
        sigmoid(sum_t r_t) to the outcome, before it scores this batch
  A_t = whiten( 5 G_t[r - mean of the others' mean r] + 5 LOO(outcome) )

G_t sums over the tokens from t on; the reference is the policy after the warm
start. The weights are the code's (coef.process, coef.outcome); after
whitening only their ratio matters. The outcome is the task's own score, as in
the paper: the environment's step rewards are not used. The code also divides
r by the batch's largest sum to go: put 'scale_by_max' after
'add_token_signal' in stream.process. Its filter of prompts and its entropy
bonus of 0.001 are left out.

  python -m experiments.train --config=configs/prime.py --workdir=runs/prime
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='prime')
  base.role(c, 'prm', lr=6e-4, max_grad_norm=10.0)
  base.role(c, 'reference', kind='frozen')
  c.signal = ('reference', 'implicit_prm')
  base.hp(
    c,
    'signal',
    'implicit_prm',
    reference='ref_logp',
    loss='cross_entropy',
    order='update_then_score',
  )
  c.advantage = ('process', 'outcome')
  c.stream.process = (
    'add_token_signal',
    'leave_one_out_tokens',
    'return_to_go_tokens',
  )
  c.stream.outcome = ('episode_outcome', 'leave_one_out')
  c.coef.update(dict(process=5.0, outcome=5.0))
  c.post = ('whiten_tokens',)
  return base.finish(c)
