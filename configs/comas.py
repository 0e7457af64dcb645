r"""CoMAS: agents solve, criticize and score each other, and nothing else pays.

Paper: CoMAS: Co-Evolving Multi-Agent Systems via Interaction Rewards,
2510.08529.

  z = (s - 1) / 2 of the score s in {1, 2, 3}
  solver  R = z        critic  R = 1 - z        scorer  R = 0
  a score that cannot be read: scorer R = -1, the others 0
  A = (R - mean_seat) / std_seat over the batch of the agent

One agent answers a sum, another says whether it finds an error, a third scores
the answer given both. Each has parameters of its own and they move on by one
seat after every update, so that all learn all parts. No answer is compared with
the truth; eval/success tells what that comes to.

A scorer that favours the solver, or the critic, is found by
rollout/total/overrated: z less the truth of the answer, 0 for a true score. It
is paid for no score, so that nothing moves it there but what it forgets.

Missing: more rounds than one, and earlier discussions to read.

Where it differs: three agents; the warm start teaches to criticize and to
score, not to solve; messages of another role that cannot be read cost it as
much; KL is a term of the loss.

  no exchange   --config.rollout.swap_seats=0

  python -m experiments.train --config=configs/comas.py --workdir=runs/comas
"""

from agentrl.configs import base, pretrained


def get_config(arg=''):
  c = base.get_config(arg, method='comas', env='workflow')
  if c.env.name == 'workflow':
    c.env.problem = 'sums'
    c.env.roles = ('solver answer', 'critic verdict', 'scorer score')
    c.env.order = ('solver critic', 'critic scorer')
    c.env.pay = ('solver esteem', 'critic doubt', 'scorer outcome*0')
    c.env.unread = (-1.0, 0.0)
    c.env.untaught = ('solver',)
  for name in ('second', 'third'):
    base.role(c, name, lr=pretrained.SCRATCH_LR)
  base.role(c, 'reference', kind='frozen')
  c.rollout.seats, c.rollout.swap_seats = ('policy', 'second', 'third'), 1
  c.rollout.update(dict(batch=96, group_size=24, slots=48, max_turns=1))
  c.sft.batch = 32 * 3
  c.signal = ('reference',)
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  for link in ('center', 'scale'):
    base.hp(c, 'episode', link, by=('agent',))
  c.loss = ('ppo', 'kl_k3')
  c.coef.kl_k3 = 0.01
  return base.finish(c)
