"""TCOD: on-policy distillation of a few turns at first, then of more.

Paper: TCOD: Exploring Temporal Curriculum in On-Policy Distillation for
Multi-turn Autonomous Agents, 2604.24005.

  k(step) = 1 + floor(step / eta) turns at most;  loss as in opd.py on all of
  them: A_t = log pi_T(y_t) - log pi_old(y_t)

The student's errors add up over turns, and lead where the teacher has not been.
This is the direction front to back (F2B), in which the student plays the first
k turns; eta is such that all of rollout.max_turns are played from half of the
steps on (the paper's depend on the benchmark). An episode that is cut is no
failure: no reward enters, and its status is SCHEDULE. The equation of the paper
averages KL(pi_T || pi); this is the form of sampled tokens that its kind of
code computes. gkd.py's loss has both directions, by beta.

Missing: the direction back to front, in which a teacher's solution is replayed
up to the last k turns.

Metrics kl/turn_<k> show the distance from the teacher at each turn. Expect it
to stay low at late turns where opd.py's rises, and more success than opd.py.

  python -m experiments.train --config=configs/tcod.py --workdir=runs/tcod \
    --config.role.teacher.run=runs/teacher
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='tcod')
  base.role(c, 'teacher', kind='frozen', run='runs/teacher')
  turns = c.rollout.max_turns
  c.task = 'growing_horizon'
  shares = tuple((i + 1) / turns for i in range(turns))
  every = max(1, c.steps // (2 * turns))
  base.hp(c, 'task', 'growing_horizon', shares=shares, every=every)
  c.signal = ('reference', 'kl_by_turn')
  base.hp(c, 'signal', 'reference', role='teacher')
  c.advantage = ('episode', 'teacher')
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.stream.teacher = ('kl_in_reward',)
  base.hp(c, 'teacher', 'kl_in_reward', coef=1.0)
  c.coef.episode = 0.0
  return base.finish(c)
