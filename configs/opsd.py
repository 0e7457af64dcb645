"""OPSD: the policy learns from itself with the solution before its eyes.

Paper: Self-Distilled Reasoner: On-Policy Self-Distillation for Large Language
Models, 2601.18734.

  minimise E over tokens of the student [D_beta(pi_T(. | x, y*), pi(. | x))]

  y* a demonstration of the task, which stands before the teacher's prompt only
  (c.reading.hinted); D_beta as in gkd.py, of all words at each token

The teacher is the policy as it was after the warm start, and stays so; set
hp.distillation.distillation.role to 'policy' for one that is synchronised
every iteration. No reward enters, as in gkd.py. The student's own samples are
all of the data.

A teacher that cannot read a hint has nothing to tell: expect a gain from
pretrained models alone. A model of 64 wide that was never shown a hint is
pulled to whatever it makes of one.

  python -m experiments.train --config=configs/opsd.py --workdir=runs/opsd
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='opsd')
  base.role(c, 'teacher', kind='frozen')
  base.reading(c, 'hinted', source='demonstration', text='A solution:')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.coef.episode = 0.0
  c.loss = ('distillation',)
  base.hp(
    c,
    'distillation',
    'distillation',
    role='teacher',
    reading='hinted',
    beta=0.5,
  )
  return base.finish(c)
