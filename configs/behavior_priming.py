"""Behavior Priming: SFT on traces that search well, solved or not, then RL.

Paper: Beneficial Reasoning Behaviors in Agentic Search and Effective
Post-training to Obtain Them, 2510.06534.

  D = {trajectories that show the behaviours};  SFT on D;  then GRPO

The four behaviours are verification of what was found, a look at which source
is the better one, another search where one failed, and recovery from errors. A
judge marks them in whole trajectories: here rules that know what the passages
of the world look like, and with `judged=checklist` a service that is asked the
four questions. Marked is what the policy samples after the warm start at a
temperature of 1.2, not what a stronger model does; the warm start has seen
demonstrations with detours. The paper keeps trajectories with all four; a
question of one hop or two has no room for them, and half of them is enough.

Whether a trajectory solves its task does not enter. The last edit makes arms of
equal size:

  --config.mix.primed.edits="('keep_with_term', 'keep_solved', 'subset')"
  --config.mix.primed.edits="('keep_with_term', 'keep_unsolved', 'subset')"
  --config.mix.primed.edits="('keep_solved', 'subset')"
  --config.mix.primed.edits="('subset',)"

Expect behaviours to matter more to what RL comes to than correctness does. Seen
so far: 1 to 5% solved, too few to tell (docs/results/first_looks.md).

  python -m experiments.train --config=configs/behavior_priming.py \
    --workdir=runs/behavior_priming
"""

from agentrl.configs import base
from agentrl.env.worlds.fact_corpus.behaviors import QUESTIONS, RULES


def get_config(arg=''):
  c = base.get_config(
    arg, method='behavior_priming', env='fact_corpus', judged='function'
  )
  asks = {'function': ('path', RULES), 'checklist': ('questions', QUESTIONS)}
  for name in {*asks} & {*c.judge}:
    how = dict([asks[name]], unit='trajectory')
    base.hp(c, 'judge', name, term=base.JUDGED, **how)
  if 'careful' in c.env:
    c.env.update(dict(contradictions=0.3, passages=2, careful=0.5))
    c.host.max_observation_tokens = max(c.host.max_observation_tokens, 84)
    c.rollout.max_turns = max(c.rollout.max_turns, 7)
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  base.source(
    c, 'primed', kind='found', last=1, edits=('keep_with_term', 'subset')
  )
  base.hp(c, 'primed', 'keep_with_term', term=base.JUDGED, above=0.49)
  base.hp(c, 'primed', 'subset', n=c.rollout.batch)
  explore = {'minibatch': 'none', 'log.groups': -1, 'rollout.temperature': 1.2}
  base.stage(c, 'explore', steps=max(1, c.steps // 4), changes=explore)
  prime = {'sft.mix': ('primed',)}
  base.stage(c, 'prime', kind='sft', steps=max(1, c.steps // 8), changes=prime)
  c.stages = ('sft', 'explore', 'prime', 'rl')
  return base.finish(c)
