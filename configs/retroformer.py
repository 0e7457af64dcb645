"""Retroformer: reflections are learned, and the actor that reads them is not.

Paper: Retroformer: Retrospective Large Language Agents with Policy Gradient
Optimization, 2308.02151.

  u_k ~ pi( . | attempt k ),   attempt k+1 ~ actor( . | x, u_1 .. u_k )
  r_k = G_k+1 - G_k,           A_k = z( r_k of equal attempts )

After a failed attempt the policy writes a reflection, the actor reads it and
tries again; a reflection is paid by the difference of the returns. The actor is
a copy of the policy from before, and is never updated.

It plays reflections (docs/ENVIRONMENTS.md): the actor guesses codes of doors,
the policy writes notes that it reads. In the stage `follow` one small model
learns to act on notes and to write notes of any code; then a frozen copy acts,
and what the policy learns is which note helps. Success by retry is in the
columns `by_1`, `by_2`, `by_3` of rollouts and evaluations. Controls:

  --config.env.arm=random        notes of random codes in place of its own
  --config.env.arm=none          the actor tries again without a note
  --config.role.policy.lr=0.0    untrained reflections

Where it differs: the paper fits a reward model to triplets of prompt,
reflection and reward and then runs PPO against it, here the reward itself is
followed online; the actor reads the newest note of each door, not all of them.

Expect success by retry to rise above that of untrained reflections as far as
the actor follows them. Seen so far, one seed and 40 steps of `tiny`, 400
attempts: by the retries from 0.11, 0.18 and 0.32 to 0.31, 0.52 and 0.66, with a
rule that follows every note as the actor (env.actor=follower, without the role
and the service); nothing with a frozen model that followed no note, after 1500
steps of which half were about it: see first that it follows.

  python -m experiments.train --config=configs/retroformer.py \
    --workdir=runs/retroformer
"""

from agentrl.configs import base


def get_config(arg=''):
  world = 'reflections'
  c = base.get_config(arg, method='retroformer', env=world)
  c.advantage = ('reflection',)
  c.stream.reflection = ('turn_reward', 'center', 'scale')
  base.hp(c, 'reflection', 'center', by=('state',), unit='turn')
  base.hp(c, 'reflection', 'scale', by=('state',), unit='turn')
  if c.env.name != world:
    return base.finish(c)
  c.env.actor = 'service'
  base.role(c, 'actor', kind='frozen')
  base.service(c, 'actor', role='actor', message=2, context=32)
  base.follow_notes(c, 60, lr=5e-3)
  return base.finish(c)
