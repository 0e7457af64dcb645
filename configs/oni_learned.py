"""ONI's learned forms: a reward model of labels that come late.

Paper: Online Intrinsic Rewards for Decision Making Agents from Large Language
Model Feedback, 2410.23022.

  classification   p = sigmoid(h(x)), fitted to labels l by cross-entropy;
                   r(x) = 1[ p > 0.5 ]
  ranking          h fitted to pairs, -log sigmoid( h(win) - h(lose) );
                   z = (h - mean) / std, both running; r(x) = z 1[ z >= q ],
                   q the median of z over the batch
  r_k = r_env,k + 0.4 r(x_k) / N(o_k+1)^3,   as in oni

  --config.hp.signal.annotated_reward.form=ranking

Labels come as in oni, after hp.memory.annotations.lag steps, and the model
learns from those that have come: it pays a turn like its labelled look-alikes
before its own label comes, and one that is never labelled, such as those beyond
--config.judging.budget=N turns of an iteration. So all tasks are played here.

Where it differs, beside what oni says: a pair is compared by the labels that
the annotator gave each of the two, not by a question about both, and equal ones
are drawn together. A turn that was seen twice is in the data twice. Four steps
on one draw of trajectories take the place of 32 on batches of 256, and the
model reads as the policy does, from a network of its own. The released code
compares z with 0.5 itself, not with a quantile.

Expect annotated_reward/accuracy well above the share of the commoner label (of
a ranking, pair_accuracy well above a half), measured before each gradient step
on the turns that it learns from, some of which earlier steps learned from too;
and solutions earlier than from the outcome alone. Not measured yet.

  python -m experiments.train --config=configs/oni_learned.py \
    --workdir=runs/oni_learned
"""

from agentrl.configs import base, oni


def get_config(arg=''):
  c = oni.get_config(arg, method='oni_learned')
  c.env.train = base.get_config(arg).env.train
  base.role(c, 'reward', lr=1e-3, heads=1)
  c.signal = ('annotated_reward',)
  base.hp(c, 'intrinsic', 'add_signal', name='annotated_reward.step')
  return base.finish(c)
