"""TableGPT-R1: rules grade what they can, criteria the rest, easy things first.

Paper: TableGPT-R1: Advancing Tabular Reasoning Through Reinforcement
Learning, 2512.20312 (its routing of rewards, its stages).

  R = outcome for a question with a rule, else the share of criteria met
      + 0.1 (calls that ran) - 0.1 (that failed) - 0.2 (that are malformed)
  A = z_group( R )
  warm start on all;  then RL on easy, medium and all kinds of questions

Questions about tables are answered with SQL or Python; of an open question the
task has the facts that its answer has to state. The share of these is the
world's own (`covered`); with `judged=checklist` a service says it. The values
of calls are our reading; a message without one is free. Each stage adds kinds
of questions: sums and counts, means and extremes, joins. In each, tasks are
preferred that the policy solved 3 to 7 times of 8; the paper sorts them before
RL. Its terms on length, repetition and others are left out. All in each stage:

  --config.stage.easy.env.kinds="count sum open max mean join"
  --config.stage.medium.env.kinds="count sum open max mean join"

Expect executable calls soon, and open questions answered as well as others.
Seen so far: 0 to 2% solved, too few to tell (docs/results/first_looks.md).

  python -m experiments.train --config=configs/tablegpt_r1.py --workdir=runs/r1
"""

from agentrl.configs import base

EASY, MEDIUM = 'count sum open', 'count sum open max mean'
HARD = f'{MEDIUM} join'


def get_config(arg=''):
  c = base.get_config(arg, method='tablegpt_r1', env='table_questions')
  c.reward = ('rule_or_criterion', 'weighted')
  criterion = base.step_term(c) if c.judge else 'covered'
  base.hp(c, 'reward', 'rule_or_criterion', ruled='rule', criterion=criterion)
  # Calls include those that failed, faults those that are malformed.
  terms = 'calls', 'faults', 'fault_malformed'
  base.hp(c, 'reward', 'weighted', terms=terms, weights=(0.1, -0.2, -0.1))
  if not c.memory:  # of another choice of tasks
    c.task, c.memory = 'difficulty_band', ('task_statistics',)
    base.hp(c, 'task', 'difficulty_band', low=3 / 8, high=7 / 8)
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  if c.env.name == 'table_questions':
    _stages(c)
  return base.finish(c)


def _stages(c):
  """Adds stages of rising difficulty; the hardest is the config's own."""
  c.env.kinds, c.host.max_observation_tokens = HARD, 140
  c.rollout.max_message_tokens = 144
  for name, kinds in {'easy': EASY, 'medium': MEDIUM}.items():
    steps = max(1, c.steps // 4)
    base.stage(c, name, steps=steps, changes={'env.kinds': kinds})
  c.steps = max(1, c.steps // 2)
  c.stages = ('sft', *c.stage, 'rl')
