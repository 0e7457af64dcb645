"""Behavior Priming: SFT on trajectories that recover, solved or not, then RL.

Paper: Beneficial Reasoning Behaviors in Agentic Search and Effective
Post-training to Obtain Them, 2510.06534.

  D = {trajectories that show the behaviour};  SFT on D;  then GRPO

The paper's four behaviours of search agents are marked by a judge of a
teacher's traces. Here it is one of them, error recovery, read off the world's
`progress`: a turn that led away is made good later (edit 'keep_recovered'), in
what the policy itself samples after the warm start, at a temperature of 1.2.
Whether a trajectory solves its task does not enter. The arms have data of equal
number, by the last edit, as long as there are so many:

  --config.mix.primed.edits="('keep_recovered', 'keep_solved', 'subset')"
  --config.mix.primed.edits="('keep_recovered', 'keep_unsolved', 'subset')"
  --config.mix.primed.edits="('keep_solved', 'subset')"
  --config.mix.primed.edits="('subset',)"

Expect the behaviour to matter more to the success that RL comes to than
correctness does.

  python -m experiments.train --config=configs/behavior_priming.py \
    --workdir=runs/behavior_priming
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='behavior_priming')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  base.source(
    c, 'primed', kind='found', last=1, edits=('keep_recovered', 'subset')
  )
  base.hp(c, 'primed', 'subset', n=2 * c.rollout.batch)
  explore = {
    'minibatch': 'none',
    'rollout.temperature': 1.2,
    'log.groups': -1,
  }
  base.stage(c, 'explore', steps=max(1, c.steps // 8), changes=explore)
  prime = {'sft.mix': ('primed',)}
  base.stage(c, 'prime', kind='sft', steps=max(1, c.steps // 8), changes=prime)
  c.stages = ('sft', 'explore', 'prime', 'rl')
  return base.finish(c)
