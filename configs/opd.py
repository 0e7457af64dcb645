"""OPD: the student samples, the teacher says how likely each token was.

Paper: On-Policy Distillation of Language Models: Learning from Self-Generated
Mistakes, 2306.13649, in the form of sampled tokens that is used since.

  A_t = task advantage - coef (log pi_old(a_t) - log pi_T(a_t)),  coef 1
  E over tokens of the student [A_t grad log pi] = -grad KL(pi || pi_T), each
  token by itself: no token pays for those after it

The teacher pi_T is a role that is frozen as the newest policy of another run of
the same model, and reads what the student reads. The reward counts for nothing
until coef.episode is raised: the default is the teacher alone.

Expect the teacher's success at a fraction of the attempts that RL needs.

  python -m experiments.train --config=configs/opd.py --workdir=runs/opd \\
    --config.role.teacher.run=runs/teacher
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='opd')
  base.role(c, 'teacher', kind='frozen', run='runs/teacher')
  c.signal = ('reference',)
  base.hp(c, 'signal', 'reference', role='teacher')
  c.advantage = ('episode', 'teacher')
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.stream.teacher = ('kl_in_reward',)
  base.hp(c, 'teacher', 'kl_in_reward', coef=1.0)
  c.coef.episode = 0.0
  return base.finish(c)
