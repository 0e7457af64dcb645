"""Early Experience by self-reflection: why the expert's action is better.

Paper: Agent Learning via Early Experience, 2510.08558; the second of its two
methods, on the data of early_experience.py, which has the rest.

  explore:  K actions a_i^j of the policy in each state s_i of a demonstration
  reflect:  L = -sum_i log pi(c_i, a_i | s_0 a_0 .. s_i),  as many of these as
            demonstrations;  c_i contrasts a_i with what the a_i^j came to
  clone:    L = -sum_i log pi(a_i | s_0 a_0 .. s_i);  then RL

In the paper a language model writes c_i. Here a rule writes it from the two
outcomes (edit 'reflections'): "left loses, down idles, so up", where going left
takes the world's `progress` below 0 and going down gains less than the
expert's. It names at most two actions, only worse ones, and so always concludes
with the expert's. Messages have room for it (rollout.action_prefix). The last
action of a demonstration is never given, and so not reflected on.

Expect more success than from imitation before RL, and after it. Seen so far,
three seeds after RL: -18.6 [-41.7, 4.5] points (docs/results/first_looks.md).

  python -m experiments.train --config=configs/early_experience_reflection.py \
    --workdir=runs/early_experience_reflection
"""

from agentrl.configs import base, early_experience


def get_config(arg=''):
  c = base.get_config(arg, method='early_experience_reflection')
  c.rollout.update(dict(action_prefix='so ', max_message_tokens=24))
  early_experience.explored_first(c)
  base.source(c, 'reflected', kind='found', last=1, edits=('reflections',))
  base.hp(c, 'reflected', 'reflections', prefix=c.rollout.action_prefix)
  c.stage.model.sft.mix = ('reflected', 'shown')
  return base.finish(c)
