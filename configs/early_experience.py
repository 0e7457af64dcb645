"""Early Experience: what own actions lead to is predicted before imitation.

Paper: Agent Learning via Early Experience, 2510.08558; implicit world
modelling, of its two methods.

  explore:  attempts that begin with the first k turns of a demonstration of n,
            k uniform on {0 .. n - 1}, and go on by the policy itself
  model:    L = -sum log pi(s_{k+1} | s_0, a_0 .. s_k, a_k), on observations
  clone:    L = -sum log pi(a_k | ...) on demonstrations;  then RL

Model and clone together take as many updates as a clone alone would. Nothing
that the policy wrote is imitated, and no reward is read before RL (edit
'only_observations'). In the paper each state of the expert has K alternative
actions and the state that each of them leads to; here attempts go on to their
end, and all of their transitions count, the expert's as well. A warm start on
demonstrations stands for the pretrained model. Self-reflection, which has a
language model write why the expert's action is better, is left out. The other
arm, imitation at equal updates:

  --config.mix.explored.kind=demonstrations --config.mix.explored.edits="()"

Expect more success than from imitation before RL, and after it.

  python -m experiments.train --config=configs/early_experience.py \
    --workdir=runs/early_experience
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='early_experience')
  c.rollout.history = 'full'
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  base.source(c, 'explored', kind='found', last=1, edits=('only_observations',))
  base.source(c, 'shown')
  explore = {
    'minibatch': 'none',
    'log.groups': -1,
    'prefix': 'random_prefix',
    'hp.prefix.random_prefix.unit': 'trajectory',
  }
  steps = max(1, c.sft.steps // 2)
  base.stage(c, 'explore', steps=max(1, c.steps // 8), changes=explore)
  for name, source in (('model', 'explored'), ('clone', 'shown')):
    fit = {'sft.mix': (source,)}
    base.stage(c, name, kind='sft', steps=steps, changes=fit)
  c.stages = ('sft', 'explore', 'model', 'clone', 'rl')
  return base.finish(c)
