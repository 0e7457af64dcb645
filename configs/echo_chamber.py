"""Echo Chamber: pre-training on a mixture of formats, then RL on one task.

Report: Echo Chamber: RL Post-training Amplifies Behaviors Learned in
Pretraining, 2504.07912.

  SFT from scratch on w_call, w_direct, w_steps of three forms of answers
  then A = z_group( R )
  share of form f = form_f / (form_call + form_direct + form_steps)

The forms are of countdown: by the calculator, at once, and operation by
operation in a thought (docs/ENVIRONMENTS.md); the report mixes code and natural
language for school mathematics, with models of 150M and 1B. What is sampled has
its form in rollout/form_call and so on in every step, and eval/total/form_call
in evaluations. Mixtures, sizes, KL and harder tasks of the run so far:

  --config.mix.steps.weight=4 --config.model.width=128
  --config.coef.kl_k3=0.01
  --config.init=runs/echo_chamber --config.env.numbers=3 --config.steps=1

PPO and expert iteration on the same mixture: configs/ppo.py:env=countdown and
configs/expert_iteration.py:env=countdown with --config.init=runs/echo_chamber
of --config.steps=0.

Expect one form to crowd out the others within an epoch, most often the one that
solves most, and its share after the warm start to say little about which.

  python -m experiments.train --config=configs/echo_chamber.py \
    --workdir=runs/echo_chamber
"""

from agentrl.configs import base

FORMS = ('call', 'direct', 'steps')


def get_config(arg=''):
  c = base.get_config(arg, method='echo_chamber', env='countdown')
  base.role(c, 'reference', kind='frozen')
  c.signal = ('reference',)
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.loss = ('ppo', 'kl_k3')
  c.coef.kl_k3 = 0.0
  if c.env.name == 'countdown':
    c.env.demonstrate = 'every'
    c.rollout.max_message_tokens = 56
    c.sft.update(dict(steps=3 * c.sft.steps, batch=64, mix=FORMS))
    for form in FORMS:
      base.source(c, form, edits=('keep_with_term',))
      base.hp(c, form, 'keep_with_term', term=f'form_{form}')
  return base.finish(c)
