"""Memory-R1: a manager of notes and one who answers from them, in turn.

Paper: Memory-R1: Enhancing Large Language Model Agents to Manage and Utilize
Memories via Reinforcement Learning, 2508.19828.

  manager:   o_t ~ pi(. | fact_t, notes like it);  bank_t+1 = o_t(bank_t)
             o in add, update, delete, noop
             R = exact match of a frozen answerer
  answerer:  a ~ pi(. | question, notes like it)
             R = exact match of a, over the bank of a frozen manager
  A = (R - mean_group) / std_group,  groups of 8

Departures: one network plays both roles, in stages: it is trained as the
manager while a copy from before the stage answers, and then as the answerer
while a copy from before that stage manages. A trajectory has all sessions of a
task, so that an answer rewards the operations of several; the paper has one
fact and a bank of the same time. Facts are invented (docs/ENVIRONMENTS.md,
Sessions).

Banks of equal size that are not learned: all until it is full, all in place of
the oldest, no memory; then an answerer that reads by a rule:

  --config.stage.answerer.env.manager=append   (recency, none) \
    --config.stage.answerer.service.manager.role=
  --config.stage.manager.env.answerer=exact \
    --config.stage.manager.service.answerer.role=

Missing: the answerer's own selection from what is retrieved, before it answers.

Expect useful operations (`useful`) and what the notes state (`kept`) to rise in
the first stage, and the second to gain only what notes allow. Seen so far: one
run of 20 updates on 32 attempts, whose warm start of 123 steps made 12% useful
operations, gained nothing.

  python -m experiments.train --config=configs/memory_r1.py \
    --workdir=runs/memory_r1
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='memory_r1', env='sessions')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  if c.env.name != 'sessions':
    return base.finish(c)
  # A turn for every session and question, at any size.
  c.env.sessions = c.rollout.max_turns - c.env.asked
  base.role(c, 'other', kind='frozen')
  for name, other in (('manager', 'answerer'), ('answerer', 'manager')):
    played = {f'env.{other}': 'service', f'service.{other}.role': 'other'}
    base.stage(c, name, steps=max(1, c.steps // 2), changes=played)
  c.stages = ('sft', 'manager', 'answerer')
  return base.finish(c)
