"""TableGPT-R1: rules grade what they can, criteria the rest, in GRPO.

Paper: TableGPT-R1: Advancing Tabular Reasoning Through Reinforcement
Learning, 2512.20312 (its routing of rewards).

  R = outcome for a question with a rule, else the share of criteria met
      + 0.1 (calls that ran) - 0.2 (messages that were not understood)
  A = z_group( R )

Questions about tables are answered with SQL or Python; of an open question the
task has the facts that its answer has to state. The share of these is the
world's own (`covered`); with `judged=checklist` a service says it. The step
terms are our reading of the paper's. Its stages of rising difficulty and its
terms on length and repetition are left out.

Expect executable calls soon, and open questions answered as well as others.

  python -m experiments.train --config=configs/tablegpt_r1.py \
    --workdir=runs/tablegpt_r1
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='tablegpt_r1', env='table_questions')
  if 'kinds' in c.env:
    c.env.kinds = 'count sum open'
    c.rollout.max_message_tokens = 144
    c.host.max_observation_tokens = 140
  c.reward = ('rule_or_criterion', 'weighted')
  criterion = base.step_term(c) if c.judge else 'covered'
  base.hp(c, 'reward', 'rule_or_criterion', ruled='rule', criterion=criterion)
  base.hp(
    c,
    'reward',
    'weighted',
    terms=('calls', 'faults', 'invalid'),
    weights=(0.1, -0.1, -0.2),
  )
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  return base.finish(c)
