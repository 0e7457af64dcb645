"""GKD: on-policy distillation of the teacher's whole distribution.

Paper: On-Policy Distillation of Language Models: Learning from Self-Generated
Mistakes, 2306.13649, where the student's own samples are all of the data
(λ = 1).

  minimise E over tokens of the student [D_beta(pi_T, pi)],  beta 1

  beta 1  KL(pi || pi_T), as here; 0  KL(pi_T || pi); between them generalised
  Jensen

The divergence is of all words at each token, not of the sampled word alone as
in opd.py, whose gradient has this one as its mean at beta 1; it costs the
teacher's head over all words in every sub-update, and no logits are held. As in
the paper no gradient goes through the sampling, so that no token pays for those
after it.

The teacher is a role that is frozen as the newest policy of another run of the
same model, and reads what the student reads. No reward enters: the one stream
of credit, which every config has, weighs 0 and no term of the loss reads it.
Add 'ppo' to c.loss and raise coef.episode for the sum of both that the paper
calls RL fine-tuning with on-policy distillation.

Expect the teacher's success at a fraction of the attempts that RL needs, most
of all with small groups and several passes, for members of a group begin alike
and nothing is compared within it: on Sokoban a student at group_size=2 and
epochs=4 solved 48.5% after 30 steps, at group_size=8 42.8% after 60 (seed 0,
teacher 57.4%).

  python -m experiments.train --config=configs/gkd.py --workdir=runs/gkd \\
    --config.role.teacher.run=runs/teacher --config.rollout.group_size=2 \\
    --config.hp.minibatch.minibatches.epochs=4
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='gkd')
  base.role(c, 'teacher', kind='frozen', run='runs/teacher')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.coef.episode = 0.0
  c.loss = ('distillation',)
  base.hp(c, 'distillation', 'distillation', role='teacher', beta=1.0)
  return base.finish(c)
