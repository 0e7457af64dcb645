"""CM2: checklist scores of a turn, compared within the group at that turn.

Paper: CM2: Reinforcement Learning with Checklist Rewards for Multi-Turn and
Multi-Step Agentic Tool Use, 2602.12268.

  A(a_k) = S_k - mean of S_k over the group's trajectories that have a turn k

S_k is what the judge's checklist says of turn k. The mean is not divided by
the deviation (Dr.GRPO's form, as in the code); a turn that no more than half
of the group reached has no advantage (the code: that no more than 4 reached),
and neither has a trajectory of which a judgement failed. No outcome is used.
How many half are is fixed when this file is read (hp.turn.require_members).

The judge here is `progress`, the solver's truth about the move: a checklist of
one item that is never wrong. `judged=checklist` asks a service, about the lists
of the tasks or one of the config's (`questions` of that judge). The code's
division of S by the number of turns, a mere scale, and its KL loss of 1e-4 are
left out.

Expect a dense signal without a look ahead: as fast as the judge is right.

  python -m experiments.train --config=configs/cm2.py --workdir=runs/cm2
"""

from agentrl.configs import base

TURN = ('group', 'turn')


def get_config(arg=''):
  c = base.get_config(arg, method='cm2')
  c.advantage = ('turn',)
  c.stream.turn = ('add_term', 'require_members', 'center')
  base.hp(c, 'turn', 'add_term', name=base.step_term(c))
  base.hp(c, 'turn', 'center', by=TURN)
  base.hp(
    c, 'turn', 'require_members', by=TURN, least=c.rollout.group_size // 2 + 1
  )
  return base.finish(c)
