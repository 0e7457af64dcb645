"""PAE: tasks proposed by what a house has, tried, judged, and imitated.

Paper: Proposer-Agent-Evaluator (PAE): Autonomous Skill Discovery For Foundation
Model Internet Agents, 2412.13194.

  proposer   task ~ p( . | what is seen of the house)
  agent      trajectory ~ pi( . | task)
  evaluator  R in {0, 1}, from what was asked and what was seen last
  policy     min  -mean log pi over the sampled tokens, thoughts too, of {R = 1}

An update is on what passed just now and on n drawn from a buffer of what passed
before. The world's own score is read by evaluations alone, whose goals no
proposal may hit upon.

Here proposer and evaluator are scripts: one writes chores over the things that
stand in what it reads, the other compares what was asked with what was shown.
Models take their places by service.proposer and c.judge. Where it differs:
houses in place of web sites, a warm start on demonstrations in place of a
pretrained agent; the proposer reads the state of a house or what its owner did
there, as no name tells what a house has; the paper's buffer, of 500,000, holds
failures as well, which are dropped from each draw of up to 1,024.

  random proposals     --config.env.context=none
  owners' actions      --config.env.context=demonstration
  designed tasks       --config.env.proposed=False
  a fooled evaluator   --config.judging.false_positive=0.2

Expect held-out success to rise; less with random proposals, of which one in
fourteen can be done (rollout/possible); and false positives to compound:
rollout/return, what passes, runs away from rollout/success, what is done.

  python -m experiments.train --config=configs/pae.py --workdir=runs/pae
"""

from agentrl.configs import base

WORLD = 'proposed_chores'


def get_config(arg=''):
  c = base.get_config(arg, method='pae', env=WORLD, judged='function')
  own = c.env.name == WORLD
  path = {'path': f'agentrl.env.worlds.{WORLD}:evaluate'} if own else {}
  if c.judge == ('function',):
    base.hp(c, 'judge', 'function', unit='trajectory', **path)
  if own:
    drawn = {'env.proposed': False}
    base.stage(c, 'warm', kind='sft', steps=c.sft.steps, changes=drawn)
    c.stages = ('warm', 'rl') if c.sft.steps else ('rl',)
  c.reward = ('weighted',)
  base.hp(c, 'reward', 'weighted', terms=(base.JUDGED,))
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'imitate_best')
  base.hp(c, 'episode', 'imitate_best', by=(), threshold=0.5)
  n = c.rollout.batch
  base.replay(c, 'replay', capacity=4 * n, n=n, age=10**6)
  c.loss = ('nll',)
  c.loss_aggregation.nll = 'token_mean'
  base.hp(c, 'minibatch', 'minibatches', n=1)
  return base.finish(c)
