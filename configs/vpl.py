"""VPL: a reward model of each user, whom a few labelled pairs reveal.

Paper: Personalizing Reinforcement Learning from Human Feedback with Variational
Preference Learning, 2408.10075.

  R_z = b + z . l;   z | labelled pairs ~ N(m, 1 / Lambda), prior N(0, 1)
  judge  L = -log sigmoid( R_z(win) - R_z(lose) ) + kl KL, over the pairs of 16
         users, half of whom like apples and half berries; the policy rests
  rl     R is frozen; one new user labels 8 pairs, of as different tasks as
         there are, and the policy learns from R at the mean of what these tell

Who likes what is not said: attempts are paired by what the task's own user
likes, and the posterior has to find it. The user is number 16, who likes
apples; number 17 likes berries:

  --config.env.first=17

One reward for everyone, which an average of users makes:

  --config.hp.signal.latent_reward.latents=0

In other worlds a term of turns has to tell the user's number
(hp.signal.latent_reward.user).

Missing: a policy that is conditioned on z; here each user has a policy. The
encoder adds pairs up as evidence, where the paper's is a network over a set,
and rewards are not scaled anew by pairs (VPL-SPO).

Expect latent_reward/pair_accuracy well above the same without latents, and
success of the new user to rise with both values of env.first, without latents
with one of them at most. Not measured yet.

  python -m experiments.train --config=configs/vpl.py --workdir=runs/vpl
"""

from agentrl.configs import base, heron

USERS, LATENTS = 16, 2


def get_config(arg=''):
  c = base.get_config(arg, method='vpl', env='baskets')
  heron.learned_reward(
    c, 'latent_reward', latents=LATENTS, users=USERS + 16, steps=0
  )
  c.role.reward.heads = 1 + 3 * LATENTS
  c.curate = ('every_pair',)
  learns = {'minibatch': 'none', 'hp.signal.latent_reward.steps': 1}
  if c.env.name == 'baskets':
    c.env.update(dict(users=1, first=USERS))
    learns |= {'env.users': USERS, 'env.first': 0}
  base.stage(c, 'judge', steps=2 * c.steps, changes=learns)
  c.stages = ('sft', 'judge', 'rl')
  return base.finish(c)
