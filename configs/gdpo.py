"""GDPO: normalises every reward in its group, then their sum over the batch.

Paper: GDPO: Group reward-Decoupled Normalization Policy Optimization for
Multi-reward RL Optimization, 2601.05242.

  A_n = z_group( R_n );   A = z_batch( sum over n of w_n A_n )

Added up first, different mixtures of rewards can become the same advantage.
The rewards are the task's outcome, what the environment paid for its steps,
and messages that were understood (coef.outcome, coef.steps, coef.valid).
z_batch is over trajectories, as in the paper; a later library takes tokens
(hp.post.whiten.unit='token'). Another reward is another stream.

  python -m experiments.train --config=configs/gdpo.py --workdir=runs/gdpo
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='gdpo')
  c.advantage = ('outcome', 'steps', 'valid')
  c.stream.outcome = ('episode_outcome', 'center', 'scale')
  c.stream.steps = ('add_term', 'episode_sum', 'center', 'scale')
  c.stream.valid = ('add_term', 'episode_sum', 'center', 'scale')
  base.hp(c, 'valid', 'add_term', name='invalid', coef=-1.0)
  c.post = ('whiten',)
  base.hp(c, 'post', 'whiten', unit='trajectory')
  return base.finish(c)
