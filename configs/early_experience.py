"""Early Experience: what own actions lead to is predicted before imitation.

Paper: Agent Learning via Early Experience, 2510.08558; implicit world
modelling. Self-reflection, its second method: early_experience_reflection.py.

  explore:  K actions a_i^j of the policy in each state s_i of a demonstration,
            and the state s_i^j that each of them leads to
  model:    L = -sum_{i,j} log pi(s_i^j | s_0 a_0 .. s_i a_i^j)
  clone:    L = -sum_i log pi(a_i | s_0 a_0 .. s_i) on demonstrations;  then RL

A group begins with the first i turns of a demonstration, for each i (prefix
'spaced_prefix'), and plays the action and a turn to read what it led to. All K
transitions are learned, equal ones once, and the expert's. Before RL nothing of
the policy's is imitated, no reward read. Model and clone take as many updates
as a clone would. An action that ends the attempt shows no state; at most 8 are
tried. A warm start stands for pretraining. Imitation at equal updates:

  --config.stage.model.sft.mix="('shown',)"

Expect more success than from imitation. Seen so far, three seeds after RL:
-13.3 [-26.0, -0.7] points (docs/results/first_looks.md).

  python -m experiments.train --config=configs/early_experience.py \
    --workdir=runs/early_experience
"""

from agentrl.configs import base

STATES, ACTIONS = 8, 4  # of a demonstration, and in each of them


def get_config(arg=''):
  c = base.get_config(arg, method='early_experience')
  explored_first(c)
  base.source(c, 'explored', kind='found', last=1, edits=('own_transitions',))
  expert = dict(edits=('only_observations',), weight=1 / ACTIONS)
  base.source(c, 'watched', **expert)
  c.stage.model.sft.mix = ('explored', 'watched')
  return base.finish(c)


def explored_first(c):
  """Adds stages that try K actions in states of demonstrations, then learn."""
  c.rollout.history = 'full'
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  base.source(c, 'shown')
  explore = {'minibatch': 'none', 'log.groups': -1} | {
    'prefix': 'spaced_prefix',
    'hp.prefix.spaced_prefix.states': STATES,
    'hp.prefix.spaced_prefix.own': 2,
    'rollout.group_size': STATES * ACTIONS,
    'rollout.max_turns': c.rollout.max_turns + 1,  # so that all of it is read
  }
  steps = max(1, c.sft.steps // 2)
  base.stage(c, 'explore', steps=max(1, c.steps // 8), changes=explore)
  for name in ('model', 'clone'):
    fit = {'sft.mix': ('shown',), 'rollout.max_turns': c.rollout.max_turns + 1}
    base.stage(c, name, kind='sft', steps=steps, changes=fit)
  c.stages = ('sft', 'explore', 'model', 'clone', 'rl')
