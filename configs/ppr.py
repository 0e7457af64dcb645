"""PPR: judged step scores, shifted by the outcome (ReNorm), in PPO.

Paper: Hybrid Reward Normalization for Process-supervised Non-verifiable
Agentic Tasks, 2509.25598.

  r_k = p_k + o - 1,   p_k in [0, 1] from a judge, o in {0, 1} the outcome

Turns of a success earn within [0, 1], of a failure within [-1, 0]: a good
turn never pays for a lost episode. r_k stands at the turn's last token and
goes through PPO's token GAE, as in ppo.py. A failure's sum is lower the longer
it lasts, so that a hopeless task is best ended early; the paper lives with it.

The judge here is the solver: p_k = 1 if the move made progress, else 0. With
`judged=number` p_k is what a service says of the turn.

Expect PPO's curve, earlier.

  python -m experiments.train --config=configs/ppr.py --workdir=runs/ppr
"""

from agentrl.configs import base, ppo


def get_config(arg=''):
  c = base.get_config(arg, method='ppr')
  ppo.critic(c)
  c.advantage = ('token',)
  rest = 'episode_outcome', 'add_constant', 'gae_tokens'
  if c.judge:  # its scores are in [0, 1]
    c.stream.token = ('add_term', *rest)
    base.hp(c, 'token', 'add_term', name=base.step_term(c))
  else:
    c.stream.token = ('add_label', *rest)
    base.hp(c, 'token', 'add_label', name='progress', good=1.0, bad=0.0)
  base.hp(c, 'token', 'add_constant', value=-1.0)
  c.post = ('whiten_tokens',)
  return base.finish(c)
