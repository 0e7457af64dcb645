"""CPR norms: imitation, fines and a vote among seats that share a pool.

Paper: The Role of Social Learning and Collective Norm Formation in Fostering
Cooperation in LLM Multi-Agent Systems, 2510.14401.

Agents harvest a common pool, and nobody tells them what is rewarded. They see
what successful peers do and may adopt it (payoff-biased social learning), fine
one whom they monitored at a price to themselves (norm-based punishment), and
propose and vote on the norm. The environment `norms` has all three:

  A_i = (R_i - mean_{task, seat}) / std_{task, seat},   R = own / (level rounds)

`own` is what a seat has caught less prices and fines, level what all can take
for ever. One policy plays all seats, each a conversation that reads neither the
others' proposals nor what it has not seen. Texts hold no reward: the policy
learns from consequences. Measured are `took`, `obeyed`, `fined`, `welfare` and
`survived`, the share of rounds before the pool collapses.

  no social learning   --config.env.social=False
  no punishment        --config.env.punish=False
  no vote              --config.env.vote=False
  scarce               --config.env.scarce=True
  altruistic start     --config.env.selfish=0
  selfish start        --config.env.selfish=4

In the warm start's demonstrations one seat of four takes the most and the
others fine it (`env.selfish=1`), or none does, or all.

Where it differs: the paper trains no weights, and its agents adapt in their
contexts; here the same kind of society is a world in which a policy is trained.
Its equations and constants were not at hand: those of the pool, the fines and
the match are ours. Known effects on people are reproduced with scripted agents
(docs/results/norms.md). What societies of language models do, and how models
differ, takes models of your own, by the config argument checkpoint=DIR.

Expect greed to be learned without fines: one seat that takes the most among
seats that take the level earns 1.7 and all together 0.7. Not measured yet.

  python -m experiments.train --config=configs/cpr_norms.py \
    --workdir=runs/cpr_norms
"""

from agentrl.configs import base, envs


def get_config(arg=''):
  c = base.get_config(arg, method='cpr_norms', env='norms')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  for link in ('center', 'scale'):
    base.hp(c, 'episode', link, by=envs.same_seat(c))
  if c.env.name == 'norms':
    c.rollout.group_size = 16  # four matches
    c.env.selfish = 1
  return base.finish(c)
