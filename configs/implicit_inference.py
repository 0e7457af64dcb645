"""Implicit inference: fine-tuning moves which task is inferred, not the skill.

Paper: Understanding Catastrophic Forgetting in Language Models via Implicit
Inference, 2309.10105.

  pre-training on all slopes and on a few, fine-tuning on the few alone
  conjugate prompt:  s^-1( model( s(x) ) ),  s multiplies labels by gamma

The paper's tasks are regressions on vectors of reals; here they are lines of
whole slopes in digits (docs/ENVIRONMENTS.md, In-context regression), and a loss
on labels is a share of right ones beside eval/.../error. All tasks are
evaluated at the end of all stages:

  eval/wide    all slopes                        eval/tune       the few
  eval/plain   slopes up to 6, gamma 1           eval/conjugate  those, gamma 2

The last two are stages of one step at a rate of 0, so that they are evaluated.
Bayes comes to 0.9 on all slopes and to 1 on the few. Fine-tuning by rewards:

  --config.stage.tune.kind=rl

Expect wide and plain to fall as tune rises, with answers as if there were the
few alone (as_few), and conjugate to fall less than plain.

  python -m experiments.train --config=configs/implicit_inference.py \
    --workdir=runs/implicit_inference
"""

from agentrl.configs import base

GAMMA = 2


def get_config(arg=''):
  world = 'in_context_regression'
  c = base.get_config(arg, method='implicit_inference', env=world)
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  if c.env.name != world:
    return base.finish(c)
  c.env.few = 0.0
  steps, half = max(1, 8 * c.sft.steps), c.env.slopes // GAMMA
  for name in ('wide', 'tune'):
    base.source(c, f'of_{name}', of=name)
  both = {'sft.mix': ('of_wide', 'of_tune')}
  base.stage(c, 'wide', kind='sft', steps=steps, changes=both)
  few = {'env.few': 1.0}
  base.stage(c, 'tune', kind='sft', steps=max(1, steps // 4), changes=few)
  for name, scale in (('plain', 1), ('conjugate', GAMMA)):
    still = {'env.slopes': half, 'env.scale': scale, 'sft.lr': 0.0}
    base.stage(c, name, kind='sft', steps=1, changes=still)
  c.stages = ('wide', 'tune', 'plain', 'conjugate')
  return base.finish(c)
