"""ARMAP: a reward model of goals written in hindsight, which guides planning.

Paper: Scaling Autonomous Agents via Automatic Reward Modeling And Planning,
2502.12130.

  explore   trajectories tau of an agent, whose own goals are thrown away
  write     a goal g that tau+ fulfils by what it did
  spoil     tau- that does not fulfil g: of the same first turns and another end
            (losers 'prefix'), or from another task ('other')
  learn     L = -log sigmoid( r(g, tau+) - r(g, tau-) ),  r a scalar head behind
            the last message; the agent is never updated
  plan      best of n, or Monte Carlo tree search whose ends are worth r

No reward of the environment is read: the policy of a warm start explores the
household, half of a group's attempts go on from turns of the others, and the
edit 'hindsight_pairs' puts goals into what was read. Other environments need
goals (agentrl/env/goals.py). To plan by it, by likelihood and by chance:

  python -m experiments.search --workdir=runs/armap \
    --evaluator=learned_ends,mean_likelihood,random --searchers=best_of_n,mcts

Easier losers: --config.hp.triplets.hindsight_pairs.losers="('other',)"

Where it differs: the paper's agent, a language model, explores without a task,
and language models write goals, refine them and write the losers; here the
policy is shown tasks whose goals are then replaced, a rule of the world reads
off a trajectory what could have been wanted, and losers were really played. Its
reward model is a vision-language model.

Missing: Reflexion, the paper's third planner.

Expect reward_model/pair_accuracy well above one half, and best of n by the
learned reward above that by likelihood. Seen so far, one seed: 67 to 74% of
pairs right, but 8 to 9 points less, maybe by chance (docs/SEARCH.md).

  python -m experiments.train --config=configs/armap.py --workdir=runs/armap
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='armap', env='household')
  c.advantage = ('episode',)  # for metrics alone: nothing updates the policy
  c.stream.episode = ('episode_return',)
  c.minibatch = 'none'
  del c.hp.minibatch
  base.role(c, 'reward', lr=1e-3, heads=1)
  c.signal, c.curate = ('reward_model',), ('opposite_ranks',)
  base.hp(c, 'signal', 'reward_model', trajectory='last', steps=0)
  base.hp(c, 'curate', 'opposite_ranks', score='outcome')
  base.source(c, 'triplets', kind='found', last=1, edits=('hindsight_pairs',))
  explore = {'collect': 'branch', 'hp.collect.branch.chance': 1.0}
  explore['log.groups'] = -1
  base.stage(c, 'explore', steps=c.steps, changes=explore)
  judge = {'sft.mix': ('triplets',), 'sft.pairs': True}
  judge['hp.signal.reward_model.steps'] = 1
  base.stage(c, 'judge', kind='sft', steps=10 * c.steps, changes=judge)
  c.stages = ('sft', 'explore', 'judge')
  return base.finish(c)
