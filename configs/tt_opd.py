"""TT-OPD: GRPO, and an average of the policy that knows how the episode ended.

Paper: Healthcare AI GYM for Medical Agents, 2605.02943.

  A_t = z_group(R) + coef g d_t 1[turn < 3],  coef 4
  d_t = log pi_T(y_t | hint, x) - log pi_old(y_t | x)
  g = -1 where R is below the group's mean, else 1
  theta_T <- 0.995 theta_T + 0.005 theta, every 5 iterations

The hint is one of two texts, by the outcome, before the teacher's prompt only.
As in the released code the gate g pushes failed trajectories away from the
teacher. The authors say that their hints reached no teacher in the runs behind
the paper's numbers; here they do, and
--config.hp.signal.reference.reading=own is the run without. The rewards of the
medical tasks, for format, process, safety and length, and the k3 term of 0.01
to a reference are left out.

Expect messages that stay shorter than GRPO's, and a gain from hints only of
models that can read them.

  python -m experiments.train --config=configs/tt_opd.py --workdir=runs/tt_opd
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='tt_opd')
  base.role(c, 'teacher', kind='ema')
  base.reading(
    c,
    'hinted',
    source='outcome',
    text='These actions solved the task.',
    failed='These actions failed. Act otherwise.',
  )
  c.signal = ('reference', 'moving_average')
  base.hp(c, 'signal', 'reference', role='teacher', reading='hinted')
  base.hp(c, 'signal', 'moving_average', role='teacher', decay=0.995, every=5)
  c.advantage = ('episode', 'teacher')
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.stream.teacher = ('kl_in_reward', 'first_turns', 'flip_below_mean')
  base.hp(c, 'teacher', 'kl_in_reward', coef=1.0)
  base.hp(c, 'teacher', 'first_turns', turns=3.0)
  c.coef.teacher = 4.0
  return base.finish(c)
