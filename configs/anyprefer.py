"""Anyprefer: DPO on pairs that a judge with a tool ranked and a critic kept.

Paper: Anyprefer: An Agentic Framework for Preference Data Synthesis,
2504.19276.

  sample  answers of a group, by the policy of the round
  judge   asks the calculator, E <- E + results; ranks: win = best, lose = worst
  reward  q(win, lose | E); below the threshold its advice joins the judge's
          instruction and the group is judged again, in the end dropped
  fit     -log sigmoid( beta (r_win - r_lose) ),  r = sum log pi - log pi_ref,
          pi_ref the policy before the fit; then the next round

A script stands in for the language model that judges and criticises
(countdown_judge): alone it gets 3 of 10 sums wrong, and it has only what it
believes right computed until it is advised. Self-rewarding, without the tool:

  --config.hp.judge.tool_ranking.tool=none

The policy itself: --config.service.judge.function='' and .role=policy; other
worlds have that judge, without a tool. One service is judge and reward model,
with one tool.

Missing: advice to the policy. It changes the instruction of the judge for its
group alone, and never the prompt of the policy that is sampled.

Expect right_pairs of rollout/judge/tool_ranking to be all of its pairs, and far
fewer without the tool. Seen so far, on 60 groups of right answers and mistakes:
59 pairs are kept, all right, 36 without advice (`revised` counts it); by the
judge alone 34 of 57 are right. What a policy gains from such labels is not
measured yet.

  python -m experiments.train --config=configs/anyprefer.py --workdir=runs/any
"""

from agentrl.configs import base

ROUNDS = 3


def get_config(arg=''):
  world = 'countdown'
  c = base.get_config(arg, method='anyprefer', env=world)
  c.judge = ('tool_ranking',)
  if c.env.name == world:
    c.env.demonstrate = 'direct'  # the policy has to answer from its head
    script = f'agentrl.env.worlds.{world}_judge:answer'
    base.service(c, 'judge', function=script)
  else:
    base.hp(c, 'judge', 'tool_ranking', tool='none')
    base.service(c, 'judge', role='policy', message=64, temperature=0.0)
  c.advantage = ('episode',)  # for metrics alone
  c.stream.episode = ('episode_return',)
  base.pair_rounds(c, ROUNDS, 'judged_pairs', loss=('dpo',))
  return base.finish(c)
