"""SpeakRL: questions that were needed pay, others cost, beside the task.

Paper: SpeakRL: Synergizing Reasoning, Speaking, and Acting in Language Models
with Reinforcement Learning, 2512.13159.

  R = outcome + a (needed questions) - b (needless ones) - d (premature acts)
      - e (turns);   A = z_group( R )

A question is needed that targets a slot not yet filled, once for each; the
world says which these are (env/worlds/hidden_slots.py), in the paper a judge
does. All needed questions of a task together pay 0.5 at most, so that to ask
never pays more than to solve. The constants are ours.

Expect more completed tasks, and fewer questions than always asking takes.

  python -m experiments.train --config=configs/speakrl.py \
    --workdir=runs/speakrl
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='speakrl', env='hidden_slots')
  c.reward = ('outcome', 'clarification')
  base.hp(
    c,
    'reward',
    'clarification',
    needed='needed_questions',
    needless='needless_questions',
    premature='premature_acts',
  )
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  return base.finish(c)
