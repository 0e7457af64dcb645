"""Training-free study: what a list of lessons is worth to a frozen policy.

Protocol, written before the first run; seed 100 chose the length of the warm
start: after 3,000 steps that policy did not read notes yet. For each seed a
policy learns to follow notes on doors whose codes are told, differ from task to
task, and so cannot be remembered. Then the codes are fixed and not told, and
each arm makes the same attempts in the same number of updates. What is compared
is `eval/success` after the last update, 400 episodes on 200 held-out tasks.

  lessons     what a service learns by comparing a group's attempts is read
  elsewhere   the same notes, each of another door
  attempts    an empty list: the same attempts, and nothing learned from them
  trained     an empty list, and the attempts train the policy instead (GRPO)
"""

from agentrl.lab.study import warm_arms

EMPTY = {'hp.recall.whole.arm': 'empty'}

DESIGN = warm_arms.Design(
  config='configs/training_free_grpo.py:tiny',
  arms={
    'lessons': {},
    'elsewhere': {
      'service.writer.function': (
        'agentrl.env.worlds.door_codes:shuffled_lesson'
      )
    },
    'attempts': EMPTY,
    'trained': EMPTY | {'minibatch': 'minibatches'},
  },
  claims={
    'Lessons are worth more than the attempts alone': ('lessons', 'attempts'),
    'What they say is used': ('lessons', 'elsewhere'),
    'They are worth more than training on the attempts': (
      'lessons',
      'trained',
    ),
  },
  sizes={'env.test': 200, 'eval.episodes': 400},
  warm={'steps': 0, 'stage.follow.steps': 12_000},
  learn={'steps': 10, 'stage.follow.steps': 0},
)
