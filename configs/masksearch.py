"""MaskSearch: texts with masked spans first, of more and more, then questions.

Paper: MaskSearch: A Universal Pre-Training Framework to Enhance Agentic Search
Capability, 2505.20285.

  text = facts of the corpus in a row, k of them masked;  k = 1, then 2, then 3
  R = F1 of the answer - 0.1 (messages not understood)
  A = z_group( R ), clip 0.2 below and 0.28 above, two tasks tried for one

The agent searches for what is masked (env.masked, docs/ENVIRONMENTS.md), by
demonstrations and then by rewards, a stage for each k; a last stage is on
questions. The paper masks entities, dates and numbers of an encyclopaedia, its
demonstrations are by several models behind a judge, k goes to 4, and a model
judges answers. Texts here name invented facts, each of which a passage states.
Masks in any order, and none at all at as many steps:

  --config.stage.mask_1.env.max_hops=3 --config.stage.mask_2.env.min_hops=1 \
  --config.stage.mask_2.env.max_hops=3 --config.stage.mask_3.env.min_hops=1
  --config.stage.mask_1.env.masked=0 --config.stage.mask_2.env.masked=0 \
  --config.stage.mask_3.env.masked=0

Expect questions (eval/rl/success) to be solved before the last stage begins,
and more of them at its end than without masks.

  python -m experiments.train --config=configs/masksearch.py \
    --workdir=runs/masksearch
"""

from agentrl.configs import base

MASKS = (1, 2, 3)


def get_config(arg=''):
  c = base.get_config(arg, method='masksearch', env='fact_corpus')
  c.collect = 'dynamic_sampling'
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  base.hp(c, 'ppo', 'ppo', clip_high=0.28)
  if c.env.name != 'fact_corpus':
    return base.finish(c)
  c.reward = ('weighted', 'invalid')
  base.hp(c, 'reward', 'weighted', terms=('f1',), weights=(1.0,))
  base.hp(c, 'reward', 'invalid', penalty=0.1)
  c.host.max_observation_tokens = 64
  names = tuple(f'mask_{k}' for k in MASKS)
  for k, name in zip(MASKS, names, strict=True):
    world = {'env.masked': 1.0, 'env.min_hops': k, 'env.max_hops': k}
    base.stage(c, name, steps=max(1, c.steps // 6), changes=world)
    base.source(c, f'of_{name}', of=name)
  c.stages = (*names, 'rl')
  if c.sft.steps:  # none for a pretrained model
    warm = {'sft.mix': tuple(f'of_{name}' for name in names)}
    base.stage(c, 'warm', kind='sft', steps=c.sft.steps, changes=warm)
    c.stages = ('warm', *c.stages)
  return base.finish(c)
