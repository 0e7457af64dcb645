"""Session memory study: what notes kept over sessions are worth.

Protocol, written before the first run of seeds 0 to 4; seed 100 chose the
lengths of the warm start and of the training. Facts about two people are told
over eight sessions, change and are retracted; nothing but a bank of two notes
lasts from one session to the next. For each seed a policy learns from
demonstrations to keep notes and to answer from them; each arm goes on from
there with GRPO, the same attempts and updates. Arms differ in what the policy
is shown of its bank, in training and in evaluation; the bank itself and what
is done to it are the same. What is compared is `eval/success` after the last
update, 400 episodes on 200 held-out tasks.

  own        its notes
  shuffled   its notes, with every value replaced by another one
  none       nothing: no memory outlives a session
"""

from agentrl.lab.study import warm_arms

DESIGN = warm_arms.Design(
  config='configs/grpo.py:tiny,env=sessions',
  arms={arm: {'env.reads': arm} for arm in ('own', 'shuffled', 'none')},
  claims={
    'A memory over sessions is worth something': ('own', 'none'),
    'What its notes say is used': ('own', 'shuffled'),
  },
  sizes={
    'env.sessions': 8,
    'env.people': 2,
    'env.things': 1,
    'env.bank': 2,
    'env.asked': 1,
    'env.train': 4000,
    'env.test': 200,
    'rollout.max_turns': 9,
    'rollout.batch': 64,
    'eval.episodes': 400,
  },
  warm={'sft.steps': 800, 'steps': 0},
  learn={'sft.steps': 0, 'steps': 40, 'role.policy.lr': 5e-4},
  shown={'useful turns': 'rollout/useful'},
)
