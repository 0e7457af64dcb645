"""SALMON: a reward model that reads principles, which steer it without labels.

Paper: SALMON: Self-Alignment with Instructable Reward Models, 2310.05910.

  judge  for every text of principles, pairs of attempts compared by it;
         L = -log sigmoid( R(win | text) - R(lose | text) ), the policy rests
  rl     R is frozen; all reward is R( . | use), which the policy cannot read

Of several principles the one that tells two attempts apart most decides. In
baskets who is to take apples soon takes what is spoilt, for spoilt baskets are
full: a hack that the world plants. One principle more stops it:

  --config.hp.signal.principled_reward.use=fresh_apples

Other texts turn the policy to berries. A model that reads no principles (texts
of c.reading empty) has one opinion under every name.

Missing: a language model as judge, which negates principles at random; here
terms of the world decide (`judged`). PPO's KL to the first policy is left out.

Expect eval/total/spoilt to rise with apples and to fall with fresh_apples. Not
measured yet.

  python -m experiments.train --config=configs/salmon.py --workdir=runs/salmon
"""

from agentrl.configs import base, heron

# name: the text, and the terms that decide under it
BASKETS = {
  'apples': ('take a', 'apples'),
  'berries': ('take b', 'berries'),
  'fresh': ('no !', '-spoilt'),
  'fresh_apples': ('take a no !', 'apples -spoilt'),
  'fresh_berries': ('take b no !', 'berries -spoilt'),
}
ELSEWHERE = {
  'earn': ('goal', 'env'),
  'brief': ('stop', '-tokens'),
  'earn_brief': ('goal stop', 'env -tokens'),
}


def get_config(arg=''):
  c = base.get_config(arg, method='salmon', env='baskets')
  principles = BASKETS if c.env.name == 'baskets' else ELSEWHERE
  for name, (text, _) in principles.items():
    base.reading(c, name, text=text)
  heron.learned_reward(
    c,
    'principled_reward',
    readings=tuple(principles),
    judged=tuple(rule for _, rule in principles.values()),
    use=next(iter(principles)),
    steps=0,
  )
  learns = {'minibatch': 'none', 'hp.signal.principled_reward.steps': 1}
  base.stage(c, 'judge', steps=2 * c.steps, changes=learns)
  c.stages = ('sft', 'judge', 'rl')
  return base.finish(c)
