"""APPO: rollouts branch inside messages, at tokens that mattered.

Paper: Agentic Procedural Policy Optimization, 2606.12384.

  BS_t = z(H_t) z(Omega_t)       where both are above 0; the highest of a task
  Omega_t = clip(product over later tokens of rho_j^(0.9^(j - t)), 1 +- 0.5)
  A   = z(R) over a task's first attempts; over its branches apart
  A_t <- A_t + mean of A over the branches that share token t
  A_t <- A_t (1 + 0.1 z(omega_t))         omega in the loss, ppo_future

The older policy (staleness.bound) samples half of a task's attempts. rho is the
policy of now over it: where what follows a token has become likelier and the
token was uncertain, the policy of now draws that token again and goes on.
Branches say what a shared token is worth and are not trained themselves
(hp.post.shared_tokens.own). Without updates in between every rho is one, and
nothing branches.

Where it differs: in the released code the two policies are the trainer's and
the sampler's copies of one, which differ by rounding alone; a branch keeps the
token and draws what follows, where here the token is drawn again; Omega counts
the token itself; attempts for which no token is left begin anew here, and
branch at low scores there.

  python -m experiments.train --config=configs/appo.py --workdir=runs/appo
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='appo', env='carried_code')
  c.staleness.update(dict(bound=1, depth=0, anchor='behaviour'))
  c.collect = 'branch_tokens'
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  base.hp(c, 'episode', 'center', by=('group', 'branch'))
  base.hp(c, 'episode', 'scale', by=('group', 'branch'))
  c.post = ('shared_tokens',)
  c.loss = ('ppo_future',)
  return base.finish(c)
