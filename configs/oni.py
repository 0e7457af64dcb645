"""ONI: an annotator's labels of turns, which come late, beside the outcome.

Paper: Online Intrinsic Rewards for Decision Making Agents from Large Language
Model Feedback, 2410.23022.

  r_k = r_env,k + 0.4 l(x_k) / N(o_k+1)^3;   A = z_group( return to go )

This is the retrieval form: l in {0, 1} is what the annotator said of turn x_k,
looked up, and 0 for one whose label has not come. oni_learned has the forms
that learn. The annotator works beside the rollouts, which do not wait for it:
labels of a batch come with the batch of hp.memory.annotations.lag steps later
and pay from the step after that on. N is how often the trajectory has seen the
observation by then, this time included, so that going back and forth pays 1,
1/8, 1/27, ... What a trajectory was in when a limit cut it short is not read,
and pays nothing.

A look-up pays what comes back, so there are few training tasks (env.train).
The annotator here is the world (good is what made progress); with
`judged=number` it is a service, with --config.judging.budget=N one that labels
N turns of an iteration, and with --config.judging.flip=0.1 one that errs.

Where it differs: a label is of what was read, what was said and what that led
to; the paper's is of the next observation alone, whose text in NetHack tells
what has just happened. A turn that comes again is judged again, by answers that
are kept; the paper asks about new ones alone. Labels are kept for
hp.memory.annotations.batches iterations, and come after a fixed lag, so that a
run can be repeated; the paper's come whenever they are there, and stay.

Expect solutions earlier than from the outcome alone (coef.intrinsic = 0). Seen
so far, three seeds with labels that came at once: +0.2 [-7.4, 7.9] points after
100 steps (docs/results/first_looks.md).

  python -m experiments.train --config=configs/oni.py --workdir=runs/oni
"""

from agentrl.configs import base


def get_config(arg='', method='oni'):
  c = base.get_config(arg, method=method, judged='column')
  c.env.train = 128
  c.memory = ('annotations',)
  base.hp(c, 'memory', 'annotations', term=base.JUDGED, lag=2, batches=32)
  c.advantage = ('external', 'intrinsic')
  c.stream.external = ('turn_reward', 'return_to_go')
  c.stream.intrinsic = ('add_signal', 'scale_by_count', 'return_to_go')
  base.hp(c, 'intrinsic', 'add_signal', name='annotations.label')
  base.hp(
    c,
    'intrinsic',
    'scale_by_count',
    by=('state',),
    power=3.0,
    within='trajectory',
  )
  c.coef.intrinsic = 0.4
  c.post = ('center', 'scale')
  for link in c.post:
    base.hp(c, 'post', link, by=('group',), unit='turn')
  return base.finish(c)
