"""PAE: tasks proposed by what a house has, tried, judged, and imitated.

Paper: Proposer-Agent-Evaluator (PAE): Autonomous Skill Discovery For Foundation
Model Internet Agents, 2412.13194.

  proposer   task ~ p( . | what is seen of the house)
  agent      trajectory ~ pi( . | task)
  evaluator  R in {0, 1}, from what was asked and what was seen last
  policy     min  -mean log pi over the sampled tokens, thoughts too, of {R = 1}

An update is on what passed just now and on n drawn from a buffer of what passed
before. Evaluations alone read the world's score; no proposal hits their goals.

Proposer and evaluator are scripts: one writes chores over the things in what it
reads, the other compares what was asked with what was shown. Models take their
places by service.proposer and c.judge. Where it differs: houses for web sites,
whose state, or owner's actions, the proposer reads; a warm start; the paper's
buffer, of 500,000, holds failures, dropped from each draw of up to 1,024.

  random proposals     --config.env.context=none
  owners' actions      --config.env.context=demonstration
  designed tasks       --config.env.proposed=False
  a fooled evaluator   --config.judging.false_positive=0.2

Expect held-out success to rise, less with random proposals (1 in 14 is doable),
and false positives to compound: rollout/return runs away from success. Not
measured yet.

  python -m experiments.train --config=configs/pae.py --workdir=runs/pae
"""

from agentrl import registry
from agentrl.configs import base

WORLD = 'proposed_chores'


def get_config(arg=''):
  c = base.get_config(arg, method='pae', env=WORLD, judged='function')
  own = c.env.name == WORLD
  path = {'path': f'agentrl.env.worlds.{WORLD}:evaluate'} if own else {}
  for name in c.judge:
    if 'unit' in registry.get('judge', name).defaults:  # turns' would add up
      base.hp(c, 'judge', name, unit='trajectory')
  if c.judge == ('function',):
    base.hp(c, 'judge', 'function', **path)
  if own:
    drawn = {'env.proposed': False}
    base.stage(c, 'warm', kind='sft', steps=c.sft.steps, changes=drawn)
    c.stages = ('warm', 'rl') if c.sft.steps else ('rl',)
  c.reward, c.advantage, c.loss = ('weighted',), ('episode',), ('nll',)
  base.hp(c, 'reward', 'weighted', terms=(base.JUDGED,))
  c.stream.episode = ('episode_return', 'imitate_best')
  # A cell for each turn: the threshold alone decides.
  base.hp(c, 'episode', 'imitate_best', by=('node',), threshold=0.5)
  n = c.rollout.batch
  base.replay(c, 'replay', capacity=4 * n, n=n, age=10**6)
  c.loss_aggregation.nll = 'token_mean'
  base.hp(c, 'minibatch', 'minibatches', n=1)
  return base.finish(c)
