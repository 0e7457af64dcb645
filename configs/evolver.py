"""EvolveR: principles distilled from attempts are read before later ones.

Paper: EvolveR: Self-Evolving LLM Agents through an Experience-Driven Lifecycle,
2510.16079.

  s = (decisive + 1) / (read + 2),   a principle with s < 0.3 is dropped
  R = outcome - 0.1 malformed + w evidence,   A = z_group( R ),   n = 8

After each batch a service writes a principle about every group; one whose
likeness to another is at least 0.85 is merged into it. Before an attempt the
three of the most similar tasks are read. w = 0 as released, and 0.2 in the
paper:

  paper's weights   --config.hp.reward.weighted.weights="(1.0, -0.1, 0.2)"
  no principles     --config.hp.recall.nearest.arm=empty
  of other tasks    --config.hp.recall.nearest.arm=shuffled

With `checkpoint=DIR` the policy itself distils. A model from scratch cannot: in
the corpus of facts a script stands in (fact_corpus/principles.py).

Missing: the tool by which the agent searches principles itself. They are read
before the first turn, so that a reward for what was retrieved would be the same
for all of a group.

Where it differs: likeness is the cosine of n-grams, and the older principle
stays; they are dropped after every step, not every tenth; the format is what
the world calls malformed, not a count of thoughts and searches.

Expect more right answers than without principles, and none more where they are
of other tasks.

  python -m experiments.train --config=configs/evolver.py --workdir=runs/evolver
"""

from agentrl.configs import base

SCRIPT = 'agentrl.env.worlds.fact_corpus.principles:distill'


def get_config(arg=''):
  c = base.get_config(arg, method='evolver', env='fact_corpus')
  facts = 'retrievers' in c.env
  if facts and not base.parse(arg)['checkpoint']:
    base.service(c, 'distiller', function=SCRIPT)
  else:
    base.service(c, 'distiller', role='policy', message=128, context=4096)
  c.memory, c.recall = ('texts',), 'nearest'
  writes = dict(write='service', service='distiller', contrast=False)
  kept = dict(merge=0.85, floor=0.3, reads=1)
  base.hp(c, 'memory', 'texts', tokens=64, operations=1, **writes, **kept)
  base.hp(c, 'recall', 'nearest', k=3, tokens=208)
  c.reward = ('weighted',)
  terms = ('outcome', 'invalid', *(('evidence',) if facts else ()))
  weights = (1.0, -0.1, 0.0)[: len(terms)]
  base.hp(c, 'reward', 'weighted', terms=terms, weights=weights)
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.rollout.group_size = 8
  return base.finish(c)
