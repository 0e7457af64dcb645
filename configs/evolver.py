"""EvolveR: the agent searches principles that its attempts have taught.

Paper: EvolveR: Self-Evolving LLM Agents through an Experience-Driven Lifecycle,
2510.16079.

  s = (decisive + 1) / (read + 2),   a principle with s < 0.3 is dropped
  R = outcome - 0.1 malformed + w evidence + w_exp max over read of s * likeness
  A = z_group( R ),   n = 8

In the corpus of facts the agent asks by a tool, `<experience>q</experience>`,
and its next turn reads the three principles most like q; demonstrations ask the
question first. After each batch a service writes a principle about every group;
one like another by 0.85 is merged. w = w_exp = 0 as released, 0.2 in the paper:

  paper's weights   --config.hp.reward.weighted.weights="(1.0, -0.1, 0.2, 0.2)"
  read beforehand   --config.hp.recall.observed.every=episode
  no principles     --config.hp.recall.observed.arm=empty
  other principles  --config.hp.recall.observed.arm=shuffled

With `checkpoint=DIR` the policy itself distils, from scratch a script does
(fact_corpus/principles.py). Elsewhere attempts read, before they begin, what
came from similar tasks; evidence and principles pay nothing.

Where it differs: principles have no triples; likeness is of n-grams, no model
confirms a merge, and the older principle stays; they are dropped after every
step, not every tenth; the format is what the world calls malformed.

Expect more right answers than without them or with others. Not measured yet.

  python -m experiments.train --config=configs/evolver.py --workdir=runs/evolver
"""

from agentrl.configs import base

SCRIPT = 'agentrl.env.worlds.fact_corpus.principles:distill'


def get_config(arg=''):
  c = base.get_config(arg, method='evolver', env='fact_corpus')
  c.memory, c.recall, c.reward = ('texts',), 'nearest', ('weighted',)
  writer, every = dict(role='policy', message=128, context=4096), {}
  terms, weights = ('outcome', 'invalid'), (1.0, -0.1)
  if c.env.name == 'fact_corpus':
    c.env.experience, c.recall, every = True, 'observed', dict(every='asked')
    terms, weights = (*terms, 'evidence', 'note_match'), (*weights, 0.0, 0.0)
    tokens = max(c.rollout.max_message_tokens, 72)  # a question is asked
    c.rollout.update(dict(max_turns=5, max_message_tokens=tokens))
    if not base.parse(arg)['checkpoint']:
      c.rollout.context = 808  # five turns, and to read once
      writer = dict(function=SCRIPT)
  base.service(c, 'distiller', **writer)
  writes = dict(write='service', service='distiller', contrast=False)
  kept = dict(merge=0.85, floor=0.3, reads=1)
  base.hp(c, 'memory', 'texts', tokens=64, operations=1, **writes, **kept)
  base.hp(c, 'recall', c.recall, k=3, tokens=208, **every)
  base.hp(c, 'reward', 'weighted', terms=terms, weights=weights)
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.rollout.group_size = 8
  return base.finish(c)
