"""EEF: the student goes on from states of the expert's failures.

Paper: Exploring Expert Failures Improves LLM Agent Tuning, 2504.13145.

  D+ = {the expert's successes};  pi_0 = argmin -log pi over D+
  round i:  pi_{i-1} plays from M + 1 evenly spaced states of each failure
            D_0 = {solved from the first state}
            D_r = {solved from the state after the last expert action that it
                   could not do without}
            pi_i = argmin -log pi over D+ u D_0 u D_r

In D_r the expert's actions are trained on where the student does not solve the
task from the state before them, and have no weight elsewhere (edit
'recoveries').

The expert is imperfect by construction: the world's solver, of whose messages
a quarter are replaced by others (mix.*.error_rate), so that it fails at part of
the training tasks. The states are those of a group, one a member, with one
simulation each; groups at tasks that the expert solved are played from their
start and not used. Each fit goes on from the policy before, where the paper's
begin from the base model. The other arms:

  BC on successes   --config.mix.recovered.weight=0.0
  own turns alone   --config.mix.recovered.edits="('keep_solved',)"

Expect tasks to be solved that the expert fails at, and more than by RFT.

  python -m experiments.train --config=configs/eef.py --workdir=runs/eef
"""

from agentrl.configs import base

ROUNDS = 3


def get_config(arg=''):
  c = base.get_config(arg, method='eef')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'imitate_best')
  c.loss = ('nll',)
  for name, edit in (('shown', 'keep_solved'), ('failed', 'keep_unsolved')):
    base.source(c, name, error_rate=0.25, edits=(edit,))
  base.source(c, 'recovered', kind='found', last=1, edits=('recoveries',))
  clone = {'sft.mix': ('shown',)}
  base.stage(c, 'clone', kind='sft', steps=max(1, c.sft.steps), changes=clone)
  names, steps = ['clone'], max(1, c.steps // ROUNDS)
  for i in range(1, ROUNDS + 1):
    simulated = {
      'minibatch': 'none',
      'log.groups': -1,
      'prefix': 'spaced_prefix',
      'prefix_source': 'failed',
      'hp.prefix.spaced_prefix.states': c.rollout.group_size,
    }
    base.stage(c, f'simulate_{i}', steps=steps, changes=simulated)
    fit = {'sft.mix': ('shown', 'recovered')}
    base.stage(c, f'fit_{i}', kind='sft', steps=steps, changes=fit)
    names += [f'simulate_{i}', f'fit_{i}']
  c.stages = tuple(names)
  return base.finish(c)
