"""CLEANER: failed calls make way for their corrections before training.

Paper: CLEANER: Self-Purified Trajectories Boost Agentic Reinforcement Learning,
2601.15141.

  a run of failed calls and the call that corrects it become one turn:
    s >= 0.5   the thought of the first, with the call of the last
    s < 0.5    the last
  s = ratio of matching characters of the two calls (difflib)
  A = (R - mean) / (std + eps);   clip 0.2 below, 0.28 above, no KL

The paper rolls a conversation back when a call fails, shows the error to the
model alone, and goes on from the corrected turn. Here the trajectory goes on as
it is, and is purified when it has ended: retries cost turns of
rollout.max_turns, and what follows was sampled with the error in sight. Both
ways log-probs of the sampler are of another context: they are set to 0 from the
first purified turn on, and ratios are to log-probs that the learner computes on
the purified rows. What was sampled is charged in full.

A call has failed where its message was malformed, it named no tool, or the tool
raised (term 'faults'). The agent's practice to recover goes with the errors:
hp.rollout.host_purified.chance = 0.5 leaves half of the trajectories as they
are. Evaluations are never purified.

Expect fewer failed calls, and the success of dapo.py in fewer steps where calls
fail often.

  python -m experiments.train --config=configs/cleaner.py --workdir=runs/cleaner
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='cleaner', env='countdown')
  c.rollout.kind = 'host_purified'
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.loss = ('ppo_dual',)
  base.hp(c, 'ppo_dual', 'ppo_dual', clip_high=0.28, dual=10.0)
  return base.finish(c)
